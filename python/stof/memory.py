# SPDX-License-Identifier: Apache-2.0
"""Whether arrays that are read and written by one call have elements in common."""

from __future__ import annotations

from operator import mul

from stof.arrays import View
from stof.c_library import InvalidArgument

_SIZES = (4, 2, 2, 4, 1)  # bytes, by a View's dtype
_MOST = 10_000  # steps of a search; layouts of attention take a few


def refuse_shared(out: View, q: View, k: View, v: View) -> None:
    """Keys and values are read until the last row of `out` is written; a row of q only before its own is."""
    end = out.address + _bytes(out)
    for name, read in (("k", k), ("v", v), ("q", q)):
        if read.address >= end or out.address >= read.address + _bytes(read) or not shares(out, read):
            continue
        if name != "q":
            raise InvalidArgument(2, f"out shares memory with {name}, which is read while it is written; accepted: memory apart from k and v")
        if (out.address, out.shape, out.strides) != (q.address, q.shape, q.strides):
            raise InvalidArgument(2, "out shares memory with q and is not q itself; accepted: q, or memory apart from it")


def _bytes(of: View) -> int:
    """From its first element to behind its last."""
    return _SIZES[of.dtype] * (1 + sum(map(mul, of.strides, of.shape)) - sum(of.strides))


def shares(one: View, other: View) -> bool:
    """Exactly, for strided arrays whose last dimension is contiguous, as parts of one buffer may lie in between each other."""
    if one.device != other.device or 0 in one.shape or 0 in other.shape:
        return False
    a, b = _steps(one), _steps(other)
    between = other.address - one.address
    spans: dict[int, tuple[int, int]] = {}  # by the step: how often it may be taken, forth in `one` and back in `other`
    for steps, sign in ((a, 1), (b, -1)):
        for count, step in steps[:-1]:
            low, high = sorted((0, sign * (count - 1)))
            first, last = spans.get(step, (0, 0))
            spans[step] = first + low, last + high
    in_rows = -(b[-1][0] - 1), a[-1][0] - 1  # of bytes: from the begin of a row to a byte, less the same of the other
    return _reaches([(step, *spans[step]) for step in sorted(spans, reverse=True)], between - in_rows[1], between - in_rows[0], [_MOST])


def _steps(of: View) -> list[tuple[int, int]]:
    """(count, bytes from one to the next) of each dimension, at last the bytes of a row."""
    size = _SIZES[of.dtype]
    steps = [(count, size * step) for count, step in zip(of.shape[:-1], of.strides) if count > 1 and step > 0]
    return [*steps, (size * of.shape[-1], 1)]


def _reaches(spans: list[tuple[int, int, int]], low: int, high: int, left: list[int]) -> bool:
    """Whether a sum of steps, each taken from `first` to `last` times, is in low..high. What takes too long to know is taken for one."""
    if not spans:
        return low <= 0 <= high
    step, first, last = spans[0]
    least = sum(span[0] * span[1] for span in spans[1:])
    most = sum(span[0] * span[2] for span in spans[1:])
    for times in range(max(first, -((most - low) // step)), min(last, (high - least) // step) + 1):
        left[0] -= 1
        if left[0] < 0 or _reaches(spans[1:], low - times * step, high - times * step, left):
            return True
    return False
