# SPDX-License-Identifier: Apache-2.0
"""What models of transformers get in place of a mask: nothing to hand on to their attention, pairs where they compute with it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from stof.c_library import Unsupported

# By their names in __torch_function__: what moves pairs and leaves them what they are, and what takes them for truths.
_MOVES = {"__getitem__", "expand", "expand_as", "repeat", "reshape", "view", "unsqueeze", "squeeze", "transpose", "permute", "flatten", "unflatten"}
_TRUTHS = {"__and__", "__rand__", "__or__", "__ror__", "__invert__", "bitwise_and", "bitwise_or", "bitwise_not", "logical_and", "logical_or", "logical_not",
           "all", "any"}  # fmt: skip
_SUMS = {"add", "__add__", "__radd__"}
_KEPT = {"to", "contiguous", "clone", "detach", "cpu", "cuda"}
_ASKED = {"dim", "size", "numel", "stride", "element_size", "is_floating_point", "is_contiguous", "get_device", "__get__", "__len__", "__repr__", "__hash__"}


class Pairs(torch.Tensor):
    """Bool, True where a query may attend to a key, of a model that has computed with it: it goes on as that."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, arguments: Any = (), words: Any = None) -> Any:
        if function.__name__ in _ASKED:
            return _as_it_is(function, arguments, words)
        return _computed(function, arguments, words or {})


class HandedOn(torch.Tensor):
    """[B, 1, N, 0], bool, with the ModelMask as `stof`, and a function that gives the bools [B, 1, N, M] as `pairs`."""

    stof: Any
    pairs: Callable[[], torch.Tensor]

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, arguments: Any = (), words: Any = None) -> Any:
        name = function.__name__
        if name in _KEPT:
            return arguments[0]
        # torch.compile makes a stand-in of it, by names of its own; what it traces a model to do comes here all the same.
        if name in _ASKED or torch._guards.TracingContext.try_get() is not None:
            return _as_it_is(function, arguments, words)
        return _computed(function, arguments, words or {})


def plain(mask: torch.Tensor) -> torch.Tensor:
    return mask.as_subclass(torch.Tensor) if isinstance(mask, Pairs) else mask


def _as_it_is(function: Any, arguments: Any, words: Any) -> Any:
    with torch._C.DisableTorchFunctionSubclass():
        return function(*arguments, **(words or {}))


@torch.compiler.disable  # what is compiled ends in front of it
def _computed(function: Any, arguments: Any, words: dict[str, Any]) -> Any:
    """By pairs. What does not say how a model takes them is refused: `1 - mask`, say, which is for masks of other kinds."""
    name = function.__name__
    _refuse_under_a_users_mask(name)
    ours = [at for at, one in enumerate(arguments) if isinstance(one, (HandedOn, Pairs))]
    known = not any(isinstance(one, (HandedOn, Pairs)) for one in words.values())
    made = lambda: function(*map(_real, arguments), **words)  # noqa: E731
    if name in _SUMS and len(ours) == 1 and not words and _is_floating(other := arguments[1 - ours[0]]):
        return other + other.new_zeros(()).where(_real(arguments[ours[0]]), torch.finfo(other.dtype).min)
    if known and ours == [0] and (name in _MOVES or (name in _KEPT and not _changes_dtype(arguments, words)) or _pads_with_false(name, arguments, words)):
        return made().as_subclass(Pairs)
    if known and ((name in _TRUTHS and ours) or (name == "where" and ours == [0]) or (name in ("masked_fill", "masked_fill_") and ours == [1])):
        return made()
    raise _refusal(name)


def _real(one: Any) -> Any:
    return one.pairs() if isinstance(one, HandedOn) else plain(one) if isinstance(one, Pairs) else one


def _is_floating(one: Any) -> bool:
    return isinstance(one, torch.Tensor) and one.is_floating_point()


def _changes_dtype(arguments: Any, words: dict[str, Any]) -> bool:
    return any(isinstance(one, (torch.dtype, torch.Tensor)) and one is not torch.bool for one in (*arguments[1:], *words.values()))


def _pads_with_false(name: str, arguments: Any, words: dict[str, Any]) -> bool:
    """And not with 0, which in a mask of numbers that are added allows."""
    return name == "pad" and words.get("value", arguments[3] if len(arguments) > 3 else None) is False


def _refuse_under_a_users_mask(name: str) -> None:
    """Of which what a model computes by itself knows nothing. The models' modules are among those that call."""
    frame = sys._getframe(2)
    while frame is not None:
        module = frame.f_locals.get("self") if "self" in frame.f_code.co_varnames else None  # f_locals is a copy
        if isinstance(module, torch.nn.Module) and hasattr(module, "stof_mask"):
            raise _refusal(f"{name}, so that it would not heed the mask of stof.transformers.use")
        frame = frame.f_back


def _refusal(name: str) -> Unsupported:
    return Unsupported(3, f"a model that computes with the mask that it has from stof, by {name}; accepted: models that hand it on to their "
                       "attention, or another attn_implementation")  # fmt: skip
