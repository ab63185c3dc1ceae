# SPDX-License-Identifier: Apache-2.0
"""Masks that differ from item to item of a batch, for bench/peers/attention.py --drawn SEED --kinds items: each in every form
that a peer takes, and the families that are drawn. What they look up are tables of all items."""
from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from typing import Callable

import masks
import more_families
import torch
from masks import MaskCase
from more_masks import int32s

DEVICE = "cuda"  # of what masks look up
MOST_PAIRS = 2**29  # of all items: a byte each, and more while they are made, in every process that prepares rows


def by_items(texts: list[str]) -> str:
    return f"batch({', '.join(f'{item}: {text}' for item, text in enumerate(texts))})"


def documents(starts: list[list[int]], length: int, device: str, left: int | None = None, right: int | None = None) -> MaskCase:
    """Packed documents that begin elsewhere in each item; their tokens see so far back and ahead, None: to their ends."""
    each = [masks.documents_from(begins, length, device, left, right) for begins in starts]
    ids = torch.stack([case.tensors[0] for case in each])

    def allows(b, q, k):
        found = ids[b, q] == ids[b, k]
        if right is not None:
            found = found & (k - q <= right)
        return found if left is None else found & (q - k <= left)

    ends = [[*begins[1:], length] for begins in starts]
    spans = [[(begin, end, end - begin) for begin, end in zip(*pair)] for pair in zip(starts, ends)]
    # Of one item's expression: where it looks up ids, a row of the table of all items.
    return MaskCase(by_items([case.text for case in each]), None, each[0].cute_source.replace("aux[0][", "aux[0][batch[0], "),
                    by_item=allows, items=len(starts), item_documents=spans, document_window=(left, right), tensors=[ids])


def right_padding(lengths: list[int], length: int, device: str) -> MaskCase:
    """Every row sees so many keys of its item."""
    ends = int32s(lengths, device)
    return MaskCase(by_items([f"sink({end})" for end in lengths]), None, "k < load(aux[0][batch[0]])",
                    by_item=lambda b, q, k: k < ends[b], items=len(lengths), tensors=[ends],
                    item_documents=[[(0, length, end)] for end in lengths], document_window=(None, None))


def left_padding(pads: list[int], length: int, device: str) -> MaskCase:
    """Causal texts behind so many positions of padding, whose rows see nothing."""
    begins = int32s(pads, device)
    return MaskCase(by_items([f"causal & !sink({pad})" for pad in pads]), None, "(k <= q) & (k >= load(aux[0][batch[0]]))",
                    by_item=lambda b, q, k: (k <= q) & (k >= begins[b]), items=len(pads), tensors=[begins],
                    item_documents=[[(pad, length, length - pad)] for pad in pads])


def of_kinds(kinds: list[MaskCase], chosen: list[int], device: str) -> MaskCase:
    """chosen: of each item one of `kinds`, by its number. Of masks that look nothing up."""
    numbers = int32s(chosen, device)

    def allows(b, q, k):
        found = kinds[0].allows(q, k) & (numbers[b] == 0)
        for number, kind in enumerate(kinds[1:], 1):
            found = found | (kind.allows(q, k) & (numbers[b] == number))
        return found

    sources = [f"((load(aux[0][batch[0]]) == load({number})) & ({kind.cute_source}))" for number, kind in enumerate(kinds)]
    return MaskCase(by_items([kinds[number].text for number in chosen]), None, " | ".join(sources), by_item=allows,
                    items=len(chosen), tensors=[numbers])


def drawn_documents(sight: Callable, draw: random.Random, length: int, batch: int) -> MaskCase:
    """sight: of a width, how far tokens see back and ahead."""
    starts = [more_families.starts_of(draw, length) for _ in range(batch)]
    left, right = sight(more_families.width(draw, max(8, length // 8)))
    counts = [len(begins) for begins in starts]
    seen = "" if right is None else " & causal" if left is None else f" & window({left})"
    return replace(documents(starts, length, DEVICE, left, right), name=f"batch({min(counts)} to {max(counts)} documents){seen}")


def drawn_lengths(draw: random.Random, length: int, batch: int) -> list[int]:
    """Of texts that are padded to the longest of them."""
    lengths = [draw.randint(max(1, length // 8), length) for _ in range(batch)]
    lengths[draw.randrange(batch)] = length
    return lengths


def drawn_right_padding(draw: random.Random, length: int, batch: int) -> MaskCase:
    lengths = drawn_lengths(draw, length, batch)
    return replace(right_padding(lengths, length, DEVICE), name=f"batch({min(lengths)} to {length} keys)")


def drawn_left_padding(draw: random.Random, length: int, batch: int) -> MaskCase:
    pads = [length - size for size in drawn_lengths(draw, length, batch)]
    return replace(left_padding(pads, length, DEVICE), name=f"causal & batch(0 to {max(pads)} left out)")


def drawn_kinds(draw: random.Random, length: int, batch: int) -> MaskCase:
    w, g = more_families.width(draw, max(8, length // 4)), draw.choice((1, 4, 16))
    every = [masks.causal(), masks.window(w), masks.longformer(w, g), masks.prefix(draw.randrange(1, length))]
    kinds = draw.sample(every, k=draw.randint(2, min(batch, len(every))))
    rest = [draw.randrange(len(kinds)) for _ in range(batch - len(kinds))]
    chosen = draw.sample([*range(len(kinds)), *rest], k=batch)
    counts = ", ".join(f"{chosen.count(number)} {kind.text}" for number, kind in enumerate(kinds))
    return replace(of_kinds(kinds, chosen, DEVICE), name=f"batch({counts})")


FAMILIES = {"packed items": partial(drawn_documents, lambda w: (None, None)), "packed items causal": partial(drawn_documents, lambda w: (None, 0)),
            "packed items window": partial(drawn_documents, lambda w: (w, w)), "right padding": drawn_right_padding,
            "left padding": drawn_left_padding, "kinds of items": drawn_kinds}  # fmt: skip


def takes(shape: tuple, keys: int) -> bool:
    batch, _, queries, _ = shape
    return batch > 1 and batch * queries * keys <= MOST_PAIRS


def masks_for(draw: random.Random, length: int, batch: int) -> dict[str, Callable]:
    """As more_families.more_masks_for, for so many items."""
    seed = draw.randrange(2**20)

    def made(make) -> MaskCase:
        case = make(random.Random(seed), length, batch)
        return replace(case, name=f"{case.name}, seed {seed}")

    return {name: partial(made, make) for name, make in FAMILIES.items()}
