# SPDX-License-Identifier: Apache-2.0
"""What a test of the package is given: the library, and where there are none of NumPy's, arrays with its interface."""

import ctypes
import math
import os
import random
import sys
from pathlib import Path

os.environ["STOF_LIBRARY"] = sys.argv.pop(1)
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

KINDS = {"<f4": ctypes.c_float, "<i4": ctypes.c_int32, "|b1": ctypes.c_uint8, "|u1": ctypes.c_uint8, "<f8": ctypes.c_double}


class Array:
    """Numbers in the order of their places, or random ones."""

    def __init__(self, shape, values=None, typestr="<f4", strides=None):
        self.shape, count = shape, math.prod(shape)
        values = [random.gauss(0, 1) for _ in range(count)] if values is None else values
        self.numbers = (KINDS[typestr] * max(1, len(values)))(*values)
        self.__array_interface__ = {"shape": shape, "typestr": typestr, "version": 3,
                                    "data": (ctypes.addressof(self.numbers), False)}  # fmt: skip
        if strides is not None:  # in elements
            self.__array_interface__["strides"] = tuple(ctypes.sizeof(KINDS[typestr]) * step for step in strides)

    def __getitem__(self, place):
        at = 0
        for length, i in zip(self.shape, place):
            at = at * length + i
        return self.numbers[at]


def nothing(*shape):
    """To be written."""
    return Array(shape, [math.nan] * math.prod(shape))


def attended(q_row, keys, values, scale, softcap=None, biases=None):
    """By definition: of a row of q and the keys and values that it may see, and what is added to the score of each, the result
    and the logarithm of the sum."""
    if not keys:
        return [0.0] * len(q_row), -math.inf
    scores = [scale * sum(a * b for a, b in zip(q_row, key)) for key in keys]
    if softcap is not None:
        scores = [softcap * math.tanh(score / softcap) for score in scores]
    if biases is not None:
        scores = [score + bias for score, bias in zip(scores, biases, strict=True)]
    most = max(scores)
    weights = [math.exp(score - most) for score in scores]
    total = sum(weights)
    return [sum(w * v[i] for w, v in zip(weights, values)) / total for i in range(len(q_row))], most + math.log(total)
