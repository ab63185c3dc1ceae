# SPDX-License-Identifier: Apache-2.0
"""Problems drawn by a seed, for bench/peers/attention.py --drawn SEED: shapes and masks that nobody chose, of the usual
families, which are here, or of those of more_families.py or item_masks.py."""
from __future__ import annotations

import random
from typing import Callable, NamedTuple

import item_masks
import masks
import more_families
from attention_cases import Case

LENGTHS = (100, 200, 384, 500, 768, 1024, 1500, 2048, 3000, 4096, 6000, 8192, 12000, 16384)
HEAD_DIMS = (32, 64, 64, 64, 80, 96, 128, 128, 128, 256)  # those that models have most come more often
HEADS = (4, 8, 12, 16, 20, 32, 40)
BATCHES = (1, 1, 2, 3, 4, 8, 16, 32)
VALUES = (2**17, 2**26)  # of q: a launch of a few microseconds, and what a peer's copies leave room for
CHUNK_LENGTHS = (20, 64, 100, 128, 200, 256, 333, 512, 1000, 2048)
GROUPS = (1, 1, 1, 4)  # q heads of each key head


def drawn_shape(draw: random.Random) -> tuple[int, int, int, int]:
    while True:
        batch, heads = draw.choice(BATCHES), draw.choice(HEADS)
        length, head_dim = draw.choice(LENGTHS), draw.choice(HEAD_DIMS)
        if VALUES[0] <= batch * heads * length * head_dim <= VALUES[1]:
            return batch, heads, length, head_dim


def drawn_masks(draw: random.Random, length: int, heads: int):
    """A family's name and its mask's maker, for each family that takes the length."""
    w = draw.choice([size for size in (8, 20, 50, 64, 128, 200, 500, 1024) if size < length])
    g, seed, block = draw.choice((1, 4, 16, 40, 64)), draw.randrange(1000), draw.choice((32, 64, 128))
    near, ends, others = draw.choice((1, 3, 5)), draw.choice((0, 1, 2)), draw.choice((0, 1, 3))
    share, step = draw.choice((0.01, 0.1, 0.3)), draw.choice((2, 3, 4))
    found = {"causal": masks.causal, "window": lambda: masks.window(w), "sliding": lambda: masks.sliding(w),
             "dilated": lambda: masks.dilated(w // 2, step), "longformer": lambda: masks.longformer(w, g),
             "bigbird": lambda: masks.bigbird(length, block, near, ends, others, seed),
             "strided": lambda: masks.strided(w), "prefix": lambda: masks.prefix(w), "sink": lambda: masks.sink_and_window(g, w),
             "random": lambda: masks.random_elements(length, share, seed)}  # fmt: skip
    if length > 1500:
        found["documents"] = lambda: masks.documents(length, seed)
        found["segments"] = lambda: masks.segments(length)
    return found


def drawn_chunk(draw: random.Random) -> tuple[tuple[int, int, int, int], int]:
    """A shape of fewer queries than keys, and how many keys."""
    while True:
        batch, heads = draw.choice(BATCHES), draw.choice(HEADS)
        queries, head_dim = draw.choice(CHUNK_LENGTHS), draw.choice(HEAD_DIMS)
        keys = queries + draw.randrange(1, 16384)
        if VALUES[0] <= batch * heads * queries * head_dim and batch * heads * keys * head_dim <= VALUES[1]:
            return (batch, heads, queries, head_dim), keys


class Kinds(NamedTuple):
    masks_of: Callable  # (draw, keys, how many masks may differ by) -> masks.MaskCase of each family
    whole: set = frozenset()  # families of which no chunks are drawn
    differ_by: int = 1  # the dimension of shapes: heads, or items
    takes: Callable = lambda shape, keys: True


KINDS = {None: Kinds(drawn_masks, {"random"}), "more": Kinds(more_families.more_masks_for, more_families.OF_WHOLE_TEXTS),
         "items": Kinds(item_masks.masks_for, differ_by=0, takes=item_masks.takes)}  # fmt: skip


def drawn_cases(seed: int, count: int, chunks: bool = False, kinds: str | None = None) -> list[Case]:
    """The families in turn, each on a shape of its own; the same for the same seed. chunks: of queries at the end of more
    keys. kinds: of KINDS."""
    draw, found, left, chosen = random.Random(seed), [], [], KINDS[kinds]
    while len(found) < count:
        shape, keys = drawn_chunk(draw) if chunks else (drawn_shape(draw), None)
        if not chosen.takes(shape, keys or shape[2]):
            continue
        makers = chosen.masks_of(draw, keys or shape[2], shape[chosen.differ_by])
        left = left or shuffled(draw, chosen.masks_of(draw, LENGTHS[-1], HEADS[0]))
        if chunks:
            left = [name for name in left if name not in chosen.whole]
        family = next((name for name in left if name in makers), None)
        if family is None:
            continue
        left.remove(family)
        kv_heads = shape[1] // draw.choice(GROUPS)
        # A width of its own: no two rows have the same mask, so none shares what a peer compiles for another.
        found.append(Case(shape, draw.choice(("f16", "bf16")), family, makers[family], width=len(found) + 1,
                          kv_heads=kv_heads if kv_heads < shape[1] else None, keys=keys))  # fmt: skip
    return found


def shuffled(draw: random.Random, families) -> list[str]:
    return draw.sample(sorted(families), k=len(families))
