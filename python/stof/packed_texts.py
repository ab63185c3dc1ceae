# SPDX-License-Identifier: Apache-2.0
"""Texts that lie one after the other in the rows of a model's batch, as transformers finds them by position_ids that begin anew."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stof.c_library import InvalidArgument, Unsupported
from stof.mask import Mask
from stof.positions import of_items, shifted

_OF_ITEMS = re.compile(r"\b(b|batch)\b")  # in the text of a mask, which counts items of the batch, and not texts


@dataclass(frozen=True)
class PackedTexts:
    """Of each text the item of the batch, and where it begins and ends there; and what a model's mask says besides, where that is known."""

    bounds: list[tuple[int, int, int]]
    shape: tuple[int, int]  # of the batch: items, rows
    besides: Callable[..., Any] | None

    @classmethod
    def of(cls, function: Callable[..., Any]) -> PackedTexts | None:
        """Of a mask function of transformers, where it keeps texts apart; `besides` where that is the last of what and_masks joins in it."""
        numbers = _text_numbers(function)
        if numbers is None:
            return None
        bounds = []
        for item, row in enumerate(numbers.tolist()):
            edges = [0, *(at for at in range(1, len(row)) if row[at] != row[at - 1]), len(row)]
            bounds += [(item, first, end) for first, end in itertools.pairwise(edges)]
        *others, last = _captured(function, "mask_functions") or (function,)
        apart = function.__name__ == "and_mask" and _captured(last, "packed_sequence_mask") is not None
        return cls(bounds, tuple(numbers.shape), (lambda *place: _all(other(*place) for other in others)) if apart else None)

    def beside(self, users: Mask) -> Mask | None:
        """A model's mask and a user's, texts as items, whose positions begin at 0. None where it cannot be said so: where a mask is another
        one for each item of the batch, or the model's is no function of positions."""
        if self.besides is None or of_the_batch(users):
            return None
        try:
            return of_items([self._of_text(item, first) for item, first, _ in self.bounds]) & users
        except InvalidArgument:
            return None

    def refuse_by_rows(self, users: Mask) -> None:
        """Where the user's mask has to go by rows of the batch: unless that is what it says of positions of texts, too."""
        if any(shifted(users, first) != users for _, first, _ in self.bounds):
            raise Unsupported(3, f"the mask {users} for texts packed by position_ids, whose positions begin anew, where it or the model's own looks at "
                              "more than positions; accepted here: causal, windows, strided, and what is made of them, or a text in each row of the batch")  # fmt: skip

    def _of_text(self, item: int, first: int) -> Mask:
        return Mask.where(lambda b, h, q, k: self.besides(item, h, q + first, k + first))


def of_the_batch(mask: Mask) -> bool:
    """Whether it may be another mask for another item of the batch."""
    return _OF_ITEMS.search(str(mask)) is not None


def _text_numbers(function: Callable[..., Any]) -> Any:
    numbers = _captured(function, "packed_sequence_mask")
    inner = (_text_numbers(part) for part in _captured(function, "mask_functions") or ())
    return numbers if numbers is not None else next((one for one in inner if one is not None), None)


def _captured(function: Callable[..., Any], name: str) -> Any:
    """What a function of transformers has kept by that name, or None."""
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    return function.__closure__[names.index(name)].cell_contents if name in names else None


def _all(truths: Any) -> Any:
    made = None
    for truth in truths:
        made = truth if made is None else made & truth
    return made
