# SPDX-License-Identifier: Apache-2.0
"""Families of masks for bench/peers/attention.py --drawn SEED --kinds more: those that usual draws do not have. Each draws a mask
for so many keys and heads."""
from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from typing import Callable

import masks
import more_masks
from masks import MaskCase

DEVICE = "cuda"  # of what masks look up
DOCUMENTS = (40, 600)  # tokens
WIDTHS = (8, 20, 32, 64, 128, 200, 256, 500, 1024)
MOST_PAIRS = 2**30  # of all heads, where masks differ by head: a byte each, and more while they are made


def width(draw: random.Random, most: int) -> int:
    return draw.choice([size for size in WIDTHS if size <= most])


def grids(length: int) -> list[tuple[int, int]]:
    """Heights and widths from 5 up, of which neither is more than four times the other."""
    return [(h, length // h) for h in range(5, length // 5 + 1) if length % h == 0 and h <= 4 * (length // h) <= 16 * h]


def natten(draw: random.Random, length: int, heads: int) -> MaskCase:
    height, wide = draw.choice(grids(length))
    kernels = [draw.choice([size for size in (3, 5, 7, 9, 13, 21, 31) if size <= side]) for side in (height, wide)]
    return masks.natten(height, wide, *kernels, device=DEVICE)


def starts_of(draw: random.Random, length: int) -> list[int]:
    least, most = DOCUMENTS
    return more_masks.packed_starts(length, least, min(most, max(least, length // 2)), draw)


def documents(sight: Callable, draw: random.Random, length: int, heads: int) -> MaskCase:
    """sight: of a width, how far tokens see back and ahead."""
    starts = starts_of(draw, length)
    left, right = sight(width(draw, max(8, length // 8)))
    case = masks.documents_from(starts, length, DEVICE, left, right)
    return replace(case, name=f"documents({len(starts)}){case.text[case.text.index(')') + 1:]}")


def prefix_documents(draw: random.Random, length: int, heads: int) -> MaskCase:
    starts = starts_of(draw, length)
    prefixes = [draw.randint(1, end - begin) for begin, end in zip(starts, [*starts[1:], length])]
    case = more_masks.prefix_documents(starts, prefixes, length, DEVICE)
    return replace(case, name=f"segments({len(starts)} documents with prefixes)")


def blocks(draw: random.Random, length: int, heads: int) -> MaskCase:
    size, causal, share = draw.choice((64, 128)), draw.random() < 0.5, draw.randint(5, 30) / 100
    by_head = draw.random() < 0.5 and heads * length * length <= MOST_PAIRS
    tables = [more_masks.drawn_blocks(size, length, share, causal, draw) for _ in range(heads if by_head else 1)]
    case = more_masks.blocks(size, tables, length, causal, DEVICE)
    chosen = f"{100 * share:.0f} %{' by head' if by_head else ''}"
    return replace(case, name=case.text.replace(more_masks.TABLE, chosen))


def slashes(draw: random.Random, length: int, heads: int) -> MaskCase:
    w = width(draw, max(8, length // 8))
    columns, diagonals = [], []
    for _ in range(draw.randint(1, 8)):
        begin = draw.randrange(length)
        columns.append((begin, min(length, begin + draw.choice((1, 4, 16, 64)))))
    for _ in range(draw.randint(1, 4)):
        distance = draw.randrange(w, length)
        diagonals.append((distance, distance + draw.choice((0, 7, 63))))
    case = more_masks.slashes(length, w, columns, diagonals, DEVICE)
    return replace(case, name=f"causal & (window({w}) | {len(columns)} columns | {len(diagonals)} diagonals)")


def one_of_heads(draw: random.Random, length: int) -> MaskCase:
    w, g = width(draw, length // 4), draw.choice((1, 4, 16, 40))
    return draw.choice((masks.causal, partial(masks.window, w), partial(masks.sliding, w), partial(masks.longformer, w, g),
                        partial(masks.sink_and_window, g, w), partial(masks.dilated, w // 2, draw.choice((2, 3, 4)))))()  # fmt: skip


def by_heads(draw: random.Random, length: int, heads: int) -> MaskCase:
    ends = sorted(draw.sample(range(1, heads), k=draw.randint(1, 3)))
    return masks.by_ranges([(end, one_of_heads(draw, length)) for end in ends], one_of_heads(draw, length))


def tree(draw: random.Random, length: int, heads: int) -> MaskCase:
    drafts = draw.choice([count for count in (16, 32, 64, 128, 256) if count < length])
    deep = draw.choice((1, 2, 4))  # the latest of so many drawn: trees of few or many levels
    parents = [max(draw.randrange(-1, draft) for _ in range(deep)) for draft in range(drafts)]
    return replace(more_masks.tree(length, parents, DEVICE), name=f"tree({drafts} drafts behind {length - drafts})")


def where(draw: random.Random, length: int, heads: int) -> MaskCase:
    w = width(draw, length // 4)
    return draw.choice((
        lambda: more_masks.same_block(length, draw.choice((16, 50, 64, 100, 300))),
        lambda: more_masks.squared_distance(w),
        lambda: more_masks.near_in_block(draw.choice((32, 48, 64, 100)), draw.choice((1, 4, 8))),
        lambda: more_masks.sum_not_divided(draw.randint(2, 7)),
        lambda: more_masks.cone(w, draw.choice((2, 4, 8, 16))),
        lambda: more_masks.comb(draw.choice((16, 64, 100)), draw.choice((1, 4, 8)))))()  # fmt: skip


def complement(draw: random.Random, length: int, heads: int) -> MaskCase:
    return more_masks.beyond(width(draw, length // 4), draw.random() < 0.5)


def checkers(draw: random.Random, length: int, heads: int) -> MaskCase:
    starts = more_masks.packed_starts(length, 16, draw.choice((64, 300, 1000)), draw)
    case = more_masks.checkers(length, starts, 0.5, draw.randrange(2**20), DEVICE)
    return replace(case, name=f"bits({len(starts)} squares, 50 % at random)")


FAMILIES = {"natten": natten, "packed": partial(documents, lambda w: (None, None)), "packed window": partial(documents, lambda w: (w, w)),
            "documents & sliding": partial(documents, lambda w: (w, 0)), "blocks": blocks, "slashes": slashes, "heads": by_heads,
            "tree": tree, "where": where, "complement": complement, "checkers": checkers, "prefix documents": prefix_documents}  # fmt: skip
OF_WHOLE_TEXTS = {"natten", "checkers"}


def fits(family: str, length: int, heads: int) -> bool:
    return bool(grids(length)) if family == "natten" else family != "heads" or heads * length * length <= MOST_PAIRS


def more_masks_for(draw: random.Random, length: int, heads: int) -> dict[str, Callable]:
    """A family's name and its mask's maker, for each family that takes the length. Of `draw` it takes one number, which stands in
    the names of masks that do not say all: no two problems have the same."""
    seed = draw.randrange(2**20)

    def made(make) -> MaskCase:
        case = make(random.Random(seed), length, heads)
        return replace(case, name=f"{case.name}, seed {seed}") if case.name else case

    return {name: partial(made, make) for name, make in FAMILIES.items() if fits(name, length, heads)}
