# SPDX-License-Identifier: Apache-2.0
"""Steps of a server, for bench/peers/steps.py: items that decode beside chunks of prompts in one batch over pages, each item
with its own number of keys. Chosen ones, and such as a seed draws."""
from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import NamedTuple

import masks
from decode_case import MOST_QUERIES
from drawn_decode import HEADS, MOST_BYTES, WINDOWS, log_uniform
from gpu_rates import SHEET_TFLOP_PER_S, copy_rate


class Item(NamedTuple):
    """Its queries are those of its last positions."""

    queries: int
    keys: int

    @property
    def decodes(self) -> bool:
        """Else it is a chunk of a prompt."""
        return self.queries <= MOST_QUERIES


def range_of(values, form: str = "") -> str:
    least, most = min(values), max(values)
    return f"{least:{form}}" if least == most else f"{least:{form}} to {most:{form}}"


@dataclass
class StepProblem:
    """Items that decode come first. planned: queries of an item that the plan has room for, 0 where that is the longest one.
    family: where the problem was drawn."""

    items: tuple[Item, ...]
    page: int
    mask: masks.MaskCase
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    dtype: str = "f16"
    planned: int = 0
    family: str | None = None

    @property
    def decoding(self) -> int:
        return sum(item.decodes for item in self.items)

    @property
    def rows(self) -> int:
        return sum(item.queries for item in self.items)

    @property
    def keys(self) -> int:
        return sum(item.keys for item in self.items)

    @property
    def longest(self) -> Item:
        """The most queries and the most keys, of one item or of two."""
        return Item(*map(max, zip(*self.items)))

    @property
    def planned_queries(self) -> int:
        return max(self.planned, self.longest.queries)

    @property
    def pages(self) -> tuple[int, ...]:
        """Of each item."""
        return tuple(-(-item.keys // self.page_keys) for item in self.items)

    @property
    def page_keys(self) -> int:
        """That a page has room for."""
        return self.page

    @property
    def name(self) -> str:
        decoding, chunks = self.items[:self.decoding], self.items[self.decoding:]
        told = []
        if decoding:
            told.append(f"{len(decoding)} x {range_of([item.queries for item in decoding])} over "
                        f"{range_of([item.keys for item in decoding])}")  # fmt: skip
        if chunks:
            told.append(", ".join(f"{item.queries} of {item.keys}" for item in chunks))
        room = f"room for {self.planned} " if self.planned else ""
        shape = f"heads {self.heads}:{self.kv_heads} d {self.head_dim} {self.dtype}"
        return f"{' beside '.join(told)} {room}{shape} pages of {self.page} {self.mask.text}"

    def window(self) -> int | None:
        return self.mask.window[0] if self.mask.window else None

    def pairs(self) -> int:
        """Allowed ones of a head, of all items."""
        most = self.longest.keys if self.window() is None else self.window() + 1
        return sum(pairs_of(item, most) for item in self.items)

    def keys_seen(self) -> int:
        """By any query of their item."""
        hidden = lambda item: 0 if self.window() is None else max(0, item.keys - item.queries - self.window())
        return sum(item.keys - hidden(item) for item in self.items)

    def bytes(self) -> int:
        """Of the keys and values that are seen, once for each key head, of q and of the output."""
        return 2 * self.head_dim * (2 * self.kv_heads * self.keys_seen() + 2 * self.heads * self.rows)

    def flops(self) -> int:
        return 4 * self.heads * self.head_dim * self.pairs()

    def floors(self, device: str) -> dict[str, float]:
        """us that the memory must take, and the tensor cores: together where neither waits for the other, one behind the other
        where nothing overlaps."""
        return {"memory": self.bytes() / copy_rate(device) / 1e6, "tensor cores": self.flops() / SHEET_TFLOP_PER_S / 1e6}

    def facts(self) -> dict:
        """As the row of results has them."""
        decoding, chunks = self.items[:self.decoding], self.items[self.decoding:]
        ends = lambda values: [min(values), max(values)]
        found = {name: getattr(self, name) for name in ("heads", "kv_heads", "head_dim", "dtype", "decoding", "rows", "keys")}
        found |= {"items": len(self.items), "page_size": self.page, "mask": self.mask.text, "planned": self.planned_queries,
                  "chunks": [list(item) for item in chunks], "bytes": self.bytes()}  # fmt: skip
        if decoding:
            found |= {"decoding_queries": ends([item.queries for item in decoding]),
                      "decoding_keys": ends([item.keys for item in decoding])}  # fmt: skip
        return found | ({"family": self.family} if self.family else {})


def pairs_of(item: Item, most: int) -> int:
    """A query at position p sees p + 1 keys, and no more than so many."""
    first, growing = item.keys - item.queries + 1, 0
    if first < most:
        growing = min(item.queries, most - first)
    return growing * first + growing * (growing - 1) // 2 + (item.queries - growing) * most


def decoding_items(draw: random.Random, count: int, least: int, most: int, queries: int = 1) -> tuple[Item, ...]:
    return tuple(Item(queries, draw.randint(least, most)) for _ in range(count))


SEED = 1  # of the lengths of chosen problems
FIXED_PAGES = (64, 16)


def fixed_steps() -> list[StepProblem]:
    """Each in pages of both sizes, over the same lengths."""
    draw = random.Random(SEED)
    usual = (*decoding_items(draw, 32, 2048, 8192), Item(512, 8192))
    long = (*decoding_items(draw, 8, 16384, 32768), Item(2048, 2048))
    chunks = tuple(Item(draw.randint(17, 600), draw.randint(1024, 30000)) for _ in range(3))
    causal, window = masks.causal(), masks.sliding(4096)
    found = [StepProblem(usual, 0, causal),
             StepProblem((*decoding_items(draw, 64, 1024, 4096), Item(1024, 4096)), 0, causal),
             StepProblem(long, 0, causal),
             StepProblem((*decoding_items(draw, 128, 512, 2048), Item(256, 1024), Item(256, 3000)), 0, causal),
             StepProblem((*decoding_items(draw, 16, 4096, 8192, queries=4), Item(512, 4096)), 0, causal),
             StepProblem(decoding_items(draw, 256, 200, 2048), 0, causal, planned=512),
             StepProblem(chunks, 0, causal),
             StepProblem(usual, 0, window), StepProblem(long, 0, window),
             StepProblem(usual, 0, causal, heads=64),
             StepProblem(usual, 0, causal, head_dim=64, dtype="bf16")]  # fmt: skip
    return [replace(problem, page=page) for problem in found for page in FIXED_PAGES]


HEAD_DIMS = (64, 128, 128)
PAGES = (16, 64, 64, 128)
FAMILIES = ("causal", "causal", "causal", "sliding")
MOST_DECODING = 256
CHUNKS = (0, 1, 1, 1, 1, 2, 3, 4)
MOST_KEYS = 32768
MOST_CHUNK = 2048
MOST_FLOPS = 4e12


def drawn_items(draw: random.Random) -> tuple[Item, ...]:
    """One of eight steps has chunks alone; in one of four some items have several queries, as where a draft is checked; one of
    four prompts is whole."""
    count = 0 if draw.random() < 1 / 8 else log_uniform(draw, 1, MOST_DECODING)
    queries = draw.randint(2, MOST_QUERIES // 2) if draw.random() < 1 / 4 else 1
    least = log_uniform(draw, 64, MOST_KEYS // 4)
    most = min(MOST_KEYS, least * draw.choice((1, 2, 4, 8)))
    items = [Item(draw.randint(1, queries), draw.randint(least, most)) for _ in range(count)]
    for _ in range(draw.choice(CHUNKS) or int(not count)):
        chunk = log_uniform(draw, MOST_QUERIES + 1, MOST_CHUNK)
        items.append(Item(chunk, chunk if draw.random() < 1 / 4 else log_uniform(draw, chunk, MOST_KEYS)))
    return tuple(items)


def fits(problem: StepProblem) -> bool:
    kept = 2 * problem.kv_heads * sum(problem.pages) * problem.page_keys * problem.head_dim
    return 2 * kept <= MOST_BYTES and kept < 2**32 and problem.flops() <= MOST_FLOPS


def drawn_steps(seed: int, count: int) -> list[StepProblem]:
    """The same for the same seed; of more problems the first are those of fewer."""
    draw, found = random.Random(seed), []
    while len(found) < count:
        family, (heads, kv_heads) = draw.choice(FAMILIES), draw.choice(HEADS)
        window = draw.choice(WINDOWS)
        mask = masks.causal() if family == "causal" else masks.sliding(window)
        problem = StepProblem(drawn_items(draw), draw.choice(PAGES), mask, heads=heads, kv_heads=kv_heads,
                              head_dim=draw.choice(HEAD_DIMS), dtype=draw.choice(("f16", "bf16")), family=family)  # fmt: skip
        if fits(problem):
            found.append(problem)
    return found
