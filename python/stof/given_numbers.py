# SPDX-License-Identifier: Apache-2.0
"""Numbers as callers give them, of Python, NumPy or PyTorch; what is none is refused by its name."""

from __future__ import annotations

import math
import operator
from typing import Any

from stof.c_library import InvalidArgument

MOST = 2**63 - 1


def whole(name: str, value: Any, least: int, most: int = MOST) -> int:
    try:
        found = operator.index(value)
    except TypeError:
        raise InvalidArgument(2, f"{name} is {value!r}, of type {type(value).__name__}; accepted: an integer") from None
    if not least <= found <= most:
        raise InvalidArgument(2, f"{name} = {found}; accepted: {least} {'or more' if most == MOST and found < least else f'to {most}'}")
    return found


def number(name: str, value: Any) -> float:
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise InvalidArgument(2, f"{name} is {value!r}, of type {type(value).__name__}; accepted: a number")
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgument(2, f"{name}: {error}; accepted: a finite number") from None
    if not math.isfinite(found):
        raise InvalidArgument(2, f"{name} = {found}; accepted: a finite number")
    return found
