# SPDX-License-Identifier: Apache-2.0
"""Which query may attend to which key: text of the mask language, arrays, and what & | ~ make of them."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable
from typing import Any

from stof import c_library
from stof.arrays import view_of
from stof.c_library import InvalidArgument
from stof.given_numbers import MOST, whole
from stof.library import library
from stof.where import text_of


class Mask:
    """Immutable. Mask("causal & window(256) | global(16)"): docs/masks.md has every term; names of .npy files in the
    text are relative to `folder`, by default the current one. Masks of equal text are equal, but for those with files,
    whose contents their text does not say."""

    def __init__(self, text: str, folder: str | os.PathLike | None = None):
        if not isinstance(text, str):
            raise InvalidArgument(2, f"Mask of type {type(text).__name__}; accepted: a string of the mask language, and Mask.where for functions")
        if folder is not None and not isinstance(folder, (str, os.PathLike)):
            raise InvalidArgument(2, f"folder of type {type(folder).__name__}; accepted: None, a str, a path")
        try:
            encoded = text.encode()
        except UnicodeEncodeError as error:
            raise InvalidArgument(2, f"Mask of a text with the lone surrogate {text[error.start]!a} at {error.start}; accepted: text of Unicode") from None
        self._keep(library().mask("parse", encoded, None if folder is None else os.fsencode(folder)))

    @classmethod
    def where(cls, function: Callable[[Any, Any, Any, Any], Any]) -> Mask:
        """From a function of item, head, and the positions of query and key, as FlexAttention has it in a mask_mod:
        Mask.where(lambda b, h, q, k: (q >= k) & (q - k < 256)). It is called once, with symbols in place of numbers, and
        so becomes an expression of the mask language; `//` and `%` round towards minus infinity there, too. With fewer
        queries than keys the last query stands at the last key, where FlexAttention counts queries from 0."""
        return cls(text_of(function))

    @classmethod
    def bits(cls, allowed: Any) -> Mask:
        """From a bool array [N, M], [H, N, M] or [B, H, N, M] of the host, True where a query may attend to a key."""
        return cls._of_array("bits", allowed)

    @classmethod
    def blocks(cls, size: int, table: Any) -> Mask:
        """From a bool array [R, R] or [H, R, R] of the host, an element for `size` queries and as many keys."""
        return cls._of_array("blocks", table, ctypes.c_int64(whole("Mask.blocks: size", size, -MOST)))

    @classmethod
    def document_ids(cls, ids: Any) -> Mask:
        """From an int32 array [M] or [B, M] of the host: positions with the same number see each other."""
        return cls._of_array("document_ids", ids)

    @property
    def depends_on_length(self) -> bool:
        """Whether it is another mask for another number of keys, as bits, natten, random_blocks and bigbird are: plans of
        such masks serve no other lengths."""
        return bool(library().library.stof_mask_depends_on_length(self.handle))

    def __and__(self, other: Mask | str | Callable[..., Any]) -> Mask:
        return self._joined("and", mask_of(other))

    def __or__(self, other: Mask | str | Callable[..., Any]) -> Mask:
        return self._joined("or", mask_of(other))

    __rand__, __ror__ = __and__, __or__  # a string in front

    def __invert__(self) -> Mask:
        return self._of_handle(library().mask("not", self.handle))

    def __str__(self) -> str:
        return library().library.stof_mask_text(self.handle).decode()

    def __repr__(self) -> str:
        return f"Mask({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mask) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __copy__(self) -> Mask:
        return self

    def __deepcopy__(self, memo: Any) -> Mask:
        return self

    def __reduce__(self) -> tuple[type[Mask], tuple[str]]:
        """By its text, which does not say what arrays hold."""
        if "#" in str(self) or ".npy" in str(self):
            raise InvalidArgument(2, f"pickling {self!r}, which has arrays; accepted: masks that their text says")
        return Mask, (str(self),)

    def _keep(self, handle: c_library.P) -> None:
        self.handle = handle
        self._key = str(self) if ".npy" not in str(self) else object()
        weakref.finalize(self, library().library.stof_mask_destroy, handle)

    def _joined(self, kind: str, other: Mask) -> Mask:
        return self._of_handle(library().mask(kind, self.handle, other.handle))

    @classmethod
    def _of_handle(cls, handle: c_library.P) -> Mask:
        made = cls.__new__(cls)
        made._keep(handle)
        return made

    @classmethod
    def _of_array(cls, kind: str, array: Any, *before: Any) -> Mask:
        of = view_of(array, f"Mask.{kind}: the array", c_library.I32 if kind == "document_ids" else c_library.BOOL)
        if not of.on_host():
            raise InvalidArgument(2, f"Mask.{kind}: the array is on {of.device}; accepted: arrays of the host, as .cpu() gives")
        return cls._of_handle(library().mask(kind, *before, ctypes.byref(of.array())))


def mask_of(mask: Mask | str | Callable[..., Any]) -> Mask:
    if isinstance(mask, str):
        return Mask(mask)
    if isinstance(mask, Mask):
        return mask
    if callable(mask):
        return Mask.where(mask)
    of_array = ", and of an array stof.Mask.bits(it)" if hasattr(mask, "__array_interface__") or hasattr(mask, "data_ptr") else ""
    raise InvalidArgument(2, f"a mask of type {type(mask).__name__}; accepted: stof.Mask, a string of the mask language, a function for Mask.where{of_array}")
