# SPDX-License-Identifier: Apache-2.0
"""Masks for keys that do not begin at position 0, or whose positions have gaps: their text, term by term."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

from stof.c_library import Unsupported
from stof.mask import Mask
from stof.where import Symbol, greatest, least, negated, text_of

# What a term says of positions; the other terms have arrays or lists, which are made for positions that begin at 0.
_TERMS: dict[str, Callable[..., Any]] = {
    "window": lambda q, k, left, right=None: (q - k <= left) & (k - q <= (left if right is None else right)),
    "dilated": lambda q, k, count, step: (abs(q - k) <= count * step) & ((q - k) % step == 0),
    "strided": lambda q, k, step: (q - k) % step == 0,
    "sink": lambda q, k, count: k < count,
    "prefix": lambda q, k, count: (k < count) | (k <= q),
    "global": lambda q, k, *listed: _any(one == at for one in (q, k) for at in listed),
}
_OF_ORDER, _OF_DIFFERENCE, _SELECTIONS = ("all", "none", "causal"), ("window", "dilated", "strided"), ("heads", "batch")
_BELOW_ZERO = re.compile(r"\([qk] ([=!<>]=|[<>]) -\d+\)")


def shifted(mask: Mask, by: int) -> Mask:
    """What `mask` says of positions q + by and k + by, for positions from 0 on. Unsupported where a term is no function of positions."""
    return mask if by == 0 else _shifted(mask, by)


@functools.lru_cache(maxsize=256)
def _shifted(mask: Mask, by: int) -> Mask:
    def term(name: str, arguments: str) -> str:
        numbers = [int(one) for one in re.findall(r"\d+", arguments)]
        if name in _OF_DIFFERENCE:
            return f"{name}({arguments})"
        if name == "global" and "[" in arguments:
            listed = [at - by for at in numbers if at >= by]
            return f"global({listed})" if listed else "none"
        if name in ("sink", "prefix", "global"):
            return f"{name}({max(numbers[0] - by, 0)})"
        # What compares a position with less than 0 is known, and would else be another text for each `by`.
        return _BELOW_ZERO.sub(lambda found: "0" if found[1] in ("<", "<=", "==") else "1", _expression(arguments, lambda x: x + by))

    return Mask(_rewritten(str(mask), term))


def of_tokens(mask: Mask, runs: Sequence[tuple[int, int]], before: int) -> Mask:
    """What `mask` says of the positions that tokens have, where those of an item lie in runs [first, end) with padding between
    them, and `before` others came before. What it says of padding is of no use."""
    if before == 0 and (not runs or (len(runs) == 1 and runs[0][0] == 0)):
        return mask

    def position(x: Symbol) -> Symbol:
        at, last = x + before, 0
        for first, end in runs:
            at = at - (first - last) * (x >= first) if last else at - first
            last = end
        return at

    def term(name: str, arguments: str) -> str:
        if name == "where":
            return _expression(arguments, position)
        numbers = [int(one) for one in re.findall(r"\d+", arguments)]
        if name == "global" and "[" not in arguments:
            q_or_k_below = lambda q, k: _any((one >= 0) & (one < numbers[0]) for one in (q, k))
            return text_of(lambda b, h, q, k: q_or_k_below(position(q), position(k)))
        return text_of(lambda b, h, q, k: _TERMS[name](position(q), position(k), *numbers))

    return Mask(_rewritten(str(mask), term))


def of_items(masks: Sequence[Mask]) -> Mask:
    """One for each item."""
    if all(mask == masks[0] for mask in masks):
        return masks[0]
    return Mask(f"batch({', '.join(f'{item}: {mask}' for item, mask in enumerate(masks))})")


def _rewritten(text: str, term: Callable[[str, str], str]) -> str:
    """With term(name, arguments) in place of each term that looks at more than the order of positions."""
    made, at = [], 0
    while found := re.compile("[a-z_]+").search(text, at):
        name, begin = found[0], found.end()
        made.append(text[at : found.start()])
        at = begin
        if name in _OF_ORDER or name in _SELECTIONS:
            made.append(name)
            continue
        if name != "where" and name not in _TERMS:
            raise Unsupported(3, f"{name} in a mask, for keys that do not begin at position 0, as of a window's cache, or for tokens with padding "
                              f"between them; accepted there: {', '.join([*_OF_ORDER, *_TERMS, *_SELECTIONS])}, where")  # fmt: skip
        at = _behind(text, begin)
        made.append(term(name, text[begin + 1 : at - 1]))
    return "".join(made) + text[at:]


def _behind(text: str, at: int) -> int:
    """The place behind the parenthesis that closes the one at `at`."""
    depth = 0
    for place in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place + 1
    raise AssertionError(text)


def _expression(text: str, position: Callable[[Symbol], Symbol]) -> str:
    return text_of(lambda b, h, q, k: _Reader(text, {"b": b, "h": h, "q": position(q), "k": position(k)}).value())


class _Reader:
    """Computes what stands in where(EXPR), with symbols for its names."""

    LEVELS = ({"|": operator.or_}, {"&": operator.and_},
              {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge},
              {"+": operator.add, "-": operator.sub}, {"*": operator.mul, "/": operator.floordiv, "%": operator.mod})  # fmt: skip

    def __init__(self, text: str, names: dict[str, Symbol]):
        self.words, self.names = re.findall(r"\d+|[a-z]+|[=!<>]=|\S", text)[::-1], names

    def value(self, level: int = 0) -> Any:
        if level == len(self.LEVELS):
            return self._single()
        value = self.value(level + 1)
        while self.words and self.words[-1] in self.LEVELS[level]:
            value = self.LEVELS[level][self.words.pop()](value, self.value(level + 1))
        return value

    def _single(self) -> Any:
        word = self.words.pop()
        if word == "-":
            return -self._single()
        if word == "!":
            return negated(self._single())
        if word == "(":
            return self._closed(self.value())
        if word in self.names:
            return self.names[word]
        if word.isdigit():
            return int(word)
        self.words.pop()  # the parenthesis
        first = self.value()
        if word == "abs":
            return self._closed(abs(first))
        self.words.pop()  # the comma
        return self._closed((least if word == "min" else greatest)(first, self.value()))

    def _closed(self, value: Any) -> Any:
        self.words.pop()
        return value


def _any(truths: Any) -> Any:
    return functools.reduce(operator.or_, truths, Symbol("0", True))
