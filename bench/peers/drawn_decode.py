# SPDX-License-Identifier: Apache-2.0
"""Problems drawn by a seed, for bench/peers/decode.py --drawn SEED: shapes and masks that nobody chose."""
from __future__ import annotations

import math
import random
from typing import Callable

import masks
from decode_case import MOST_QUERIES, Problem

BATCHES = (1, 1, 1, 2, 4, 8, 16, 32)
HEADS = ((32, 8), (32, 32), (64, 8), (16, 2), (28, 4), (8, 1), (40, 8), (12, 12))
HEAD_DIMS = (64, 128, 128, 128, 256)  # those that models have most come more often
KEYS = (300, 131072)
PAGES = (0, 0, 0, 16, 64, 128)
MOST_BYTES = 8e9  # of K and V: leaves room for a peer's copies, and each has fewer than 2^31 elements
WINDOWS = (128, 256, 500, 1024, 2000, 4096, 8191)
SINKS = (1, 4, 16, 64, 100)
FAMILIES = ("all", "causal", "causal", "sliding", "sliding", "sink", "sink", "documents", "segments")


def drawn_mask(draw: random.Random, family: str, keys: int) -> masks.MaskCase:
    w = draw.choice([size for size in WINDOWS if size < keys] or [keys // 2])
    g, starts = draw.choice(SINKS), sorted(draw.sample(range(1, keys), k=draw.choice((1, 2, 5))))
    make = {"all": masks.everything, "causal": masks.causal, "sliding": lambda: masks.sliding(w),
            "sink": lambda: masks.sink_and_window(g, w), "documents": lambda: masks.few_documents(starts),
            "segments": lambda: masks.segments(keys)}  # fmt: skip
    return make[family]()


def log_uniform(draw: random.Random, least: int, most: int) -> int:
    return round(math.exp(draw.uniform(math.log(least), math.log(most))))


def bytes_of_keys(shape: dict) -> int:
    """And of values, of a dtype of 16 bits."""
    return 4 * shape["batch"] * shape["kv_heads"] * shape["keys"] * shape["head_dim"]


def drawn_shape(draw: random.Random) -> dict:
    while True:
        heads, kv_heads = draw.choice(HEADS)
        shape = {"batch": draw.choice(BATCHES), "heads": heads, "kv_heads": kv_heads, "head_dim": draw.choice(HEAD_DIMS),
                 "keys": log_uniform(draw, *KEYS)}  # fmt: skip
        if bytes_of_keys(shape) <= MOST_BYTES:
            return shape | {"queries": 1 if draw.random() < 0.5 else draw.randint(2, MOST_QUERIES)}


def drawn(seed: int, count: int, families: tuple, shape_of: Callable, pages: tuple) -> list[Problem]:
    """The families in turn, each on a shape of its own that shape_of draws; the same for the same seed."""
    draw, found, left = random.Random(seed), [], []
    for _ in range(count):
        left = left or draw.sample(families, k=len(families))
        family, shape = left.pop(), shape_of(draw)
        found.append(Problem(**shape, page=draw.choice(pages), dtype=draw.choice(("f16", "bf16")),
                             mask=drawn_mask(draw, family, shape["keys"]), family=family))  # fmt: skip
    return found


def drawn_problems(seed: int, count: int) -> list[Problem]:
    return drawn(seed, count, FAMILIES, drawn_shape, PAGES)
