# SPDX-License-Identifier: Apache-2.0
"""Draft trees to verify, for bench/peers/trees.py: items that each have as many drafts as the others, in a tree of their own, over a
number of keys of their own. Chosen ones, and such as a seed draws."""
from __future__ import annotations

import functools
import random
from dataclasses import dataclass

import masks
from drawn_decode import HEADS, log_uniform
from step_problems import Item, StepProblem, fits, range_of

ROW_KEYS = 64  # rows of keys have room for a multiple of so many
WORD_BITS = 32
KINDS = ("random", "chain", "wide")


def parents_of(kind: str, drafts: int, draw: random.Random) -> tuple[int, ...]:
    """Of each draft, which comes behind its parent; -1 of the root. random: any earlier one. chain: the one before, which is
    causal. wide: the root."""
    of = {"random": draw.randrange, "chain": lambda i: i - 1, "wide": lambda i: 0}[kind]
    return (-1, *map(of, range(1, drafts)))


def seen_by(parents: tuple[int, ...]) -> list[int]:
    """Of each draft a bit for each draft that it sees: itself and those above it."""
    rows: list[int] = []
    for i, parent in enumerate(parents):
        rows.append(1 << i | (rows[parent] if parent >= 0 else 0))
    return rows


def words_of(row: int, drafts: int) -> list[int]:
    """Its bits as int32, the first ones in the first word."""
    words = [row >> begin & 2**WORD_BITS - 1 for begin in range(0, drafts, WORD_BITS)]
    return [word - 2**WORD_BITS if word >> WORD_BITS - 1 else word for word in words]


@dataclass
class TreeProblem(StepProblem):
    """page: 0 where keys lie in rows. seed: of the trees."""

    kind: str = "random"
    seed: int = 1

    @property
    def drafts(self) -> int:
        return self.items[0].queries

    @property
    def page_keys(self) -> int:
        """Rows are pages of whole items."""
        return self.page or -(-self.longest.keys // ROW_KEYS) * ROW_KEYS

    @functools.cached_property
    def trees(self) -> list[list[int]]:
        """What each draft of each item sees, as seen_by has it."""
        draw = random.Random(self.seed)
        return [seen_by(parents_of(self.kind, self.drafts, draw)) for _ in self.items]

    @property
    def name(self) -> str:
        kept = f"pages of {self.page}" if self.page else "rows"
        shape = f"heads {self.heads}:{self.kv_heads} d {self.head_dim} {self.dtype}"
        return f"{len(self.items)} x {self.drafts} drafts {self.kind} over {range_of([item.keys for item in self.items])} {shape} {kept}"

    def pairs(self) -> int:
        """Allowed ones of a head, of all items."""
        before = sum(item.queries * (item.keys - item.queries) for item in self.items)
        return before + sum(row.bit_count() for tree in self.trees for row in tree)

    def facts(self) -> dict:
        found = {name: getattr(self, name) for name in ("heads", "kv_heads", "head_dim", "dtype", "drafts", "keys")}
        lengths = [item.keys for item in self.items]
        found |= {"tree": self.kind, "items": len(self.items), "item_keys": [min(lengths), max(lengths)], "page_size": self.page,
                  "bytes": self.bytes()}  # fmt: skip
        return found | ({"family": self.family} if self.family else {})


def tree_items(draw: random.Random, count: int, drafts: int, most: int) -> tuple[Item, ...]:
    """Over half as many keys up to `most`, which one of them has."""
    keys = [most, *(draw.randint(max(drafts, most // 2), most) for _ in range(count - 1))]
    draw.shuffle(keys)
    return tuple(Item(drafts, own) for own in keys)


SEED = 1  # of the lengths of chosen problems
# Drafts, items, the most keys of one, kind, page; by shape of heads, head dimension and dtype.
CHOSEN = {
    (32, 8, 128, "f16"): ((4, 8, 4096, "random", 64), (8, 1, 2048, "random", 64), (8, 32, 8192, "random", 64),
                          (8, 64, 2048, "random", 64), (16, 1, 32768, "random", 64), (16, 32, 8192, "random", 64),
                          (16, 32, 8192, "random", 16), (16, 32, 8192, "chain", 64), (24, 8, 4096, "random", 64),
                          (32, 64, 2048, "random", 64), (64, 1, 2048, "random", 64), (64, 1, 32768, "random", 64),
                          (64, 32, 8192, "random", 64), (64, 32, 8192, "wide", 64), (64, 8, 4096, "random", 16),
                          (64, 8, 4096, "random", 0), (16, 64, 2048, "random", 0), (128, 8, 4096, "random", 64)),
    (64, 8, 128, "bf16"): ((8, 64, 2048, "random", 64), (32, 32, 8192, "random", 64)),
    (28, 4, 128, "bf16"): ((4, 1, 32768, "random", 64), (24, 8, 4096, "random", 64), (64, 64, 2048, "random", 16)),
    (16, 16, 64, "f16"): ((16, 8, 4096, "random", 64), (32, 32, 8192, "random", 64)),
    (32, 8, 256, "bf16"): ((24, 8, 4096, "random", 64),),
}  # fmt: skip


def fixed_trees() -> list[TreeProblem]:
    draw, found = random.Random(SEED), []
    for (heads, kv_heads, head_dim, dtype), chosen in CHOSEN.items():
        for drafts, count, most, kind, page in chosen:
            found.append(TreeProblem(tree_items(draw, count, drafts, most), page, masks.causal(), heads=heads, kv_heads=kv_heads,
                                     head_dim=head_dim, dtype=dtype, kind=kind, seed=draw.randrange(2**32)))  # fmt: skip
    return found


HEAD_DIMS = (64, 128, 128, 128, 256)  # those that models have most come more often
PAGES = (16, 64, 64, 64, 128, 0)
KIND_WEIGHTS = (4, 1, 1)  # of KINDS
MOST_DRAFTS = 128
MOST_ITEMS = 128
KEYS = (256, 65536)


def drawn_trees(seed: int, count: int) -> list[TreeProblem]:
    """The same for the same seed; of more problems the first are those of fewer."""
    draw, found = random.Random(seed), []
    while len(found) < count:
        drafts, items, most = log_uniform(draw, 2, MOST_DRAFTS), log_uniform(draw, 1, MOST_ITEMS), log_uniform(draw, *KEYS)
        (heads, kv_heads), kind = draw.choice(HEADS), draw.choices(KINDS, KIND_WEIGHTS)[0]
        problem = TreeProblem(tree_items(draw, items, drafts, most), draw.choice(PAGES), masks.causal(), heads=heads,
                              kv_heads=kv_heads, head_dim=draw.choice(HEAD_DIMS), dtype=draw.choice(("f16", "bf16")),
                              family=kind, kind=kind, seed=draw.randrange(2**32))  # fmt: skip
        if fits(problem):
            found.append(problem)
    return found
