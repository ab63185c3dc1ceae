# SPDX-License-Identifier: Apache-2.0
"""Chunks of prompts, for bench/peers/decode.py --chunks SEED and --chunks-fixed: more queries an item than decoding has, those
of the last positions, over keys that mostly lie in pages."""
from __future__ import annotations

import random

import masks
from decode_case import MOST_QUERIES, Problem
from drawn_decode import HEAD_DIMS, HEADS, MOST_BYTES, bytes_of_keys, drawn, log_uniform

BATCHES = (1, 1, 1, 2, 4, 8, 16)
QUERIES = (MOST_QUERIES + 1, 2048)
MOST_KEYS = 65536
PAGES = (0, 16, 16, 64, 64, 64, 128, 128)  # rows in one of eight, to compare
FAMILIES = ("causal", "causal", "causal", "causal", "sliding", "sliding", "sink", "documents", "all")
MOST_FLOPS = 4e12  # some 7 ms where no pair is masked

FIXED_QUERIES = (128, 512, 2048)
FIXED_KEYS = (8192, 32768, 131072)
FIXED_PAGES = (0, 16, 64, 128)
MOST_FIXED_FLOPS = 5e12  # 2,048 queries of one item over all keys


def drawn_shape(draw: random.Random) -> dict:
    while True:
        heads, kv_heads = draw.choice(HEADS)
        queries = log_uniform(draw, *QUERIES)
        shape = {"batch": draw.choice(BATCHES), "heads": heads, "kv_heads": kv_heads, "head_dim": draw.choice(HEAD_DIMS),
                 "queries": queries, "keys": log_uniform(draw, queries, MOST_KEYS)}  # fmt: skip
        flops = 4 * shape["batch"] * heads * queries * shape["keys"] * shape["head_dim"]
        if flops <= MOST_FLOPS and bytes_of_keys(shape) <= MOST_BYTES:
            return shape


def drawn_chunks(seed: int, count: int) -> list[Problem]:
    return drawn(seed, count, FAMILIES, drawn_shape, PAGES)


def fixed_chunks() -> list[Problem]:
    """Every size of pages for chunks of 512; the others in rows and in pages of 64 alone, for time."""
    pages = lambda queries: FIXED_PAGES if queries == 512 else (0, 64)
    found = [Problem(batch, keys, page, masks.causal(), queries=queries) for batch in (1, 8) for keys in FIXED_KEYS
             for queries in FIXED_QUERIES for page in pages(queries)]  # fmt: skip
    found += [Problem(1, keys, page, masks.sliding(4096), queries=512) for keys in FIXED_KEYS for page in (0, 64)]
    return [problem for problem in found if problem.flops_of(problem.queries * problem.keys) <= MOST_FIXED_FLOPS]
