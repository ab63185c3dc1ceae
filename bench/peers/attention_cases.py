# SPDX-License-Identifier: Apache-2.0
"""What bench/peers/attention.py measures: shapes and masks of docs/benchmarks.md, and who is asked."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

import masks
from biases import Bias

# B, H, S, d and the widths of its masks: they follow the square root of the length.
SHAPES = [((16, 12, 4096, 64), 32), ((1, 12, 4096, 64), 32), ((8, 12, 512, 64), 16), ((16, 12, 1024, 64), 16),
          ((1, 12, 1024, 64), 16), ((1, 12, 128, 64), 16), ((1, 32, 16384, 128), 512)]  # fmt: skip
# Shapes that no target is for: lengths that no tile divides, other head dimensions, few and many heads.
MORE_SHAPES = [((2, 16, 3000, 64), 100), ((8, 16, 777, 64), 50), ((32, 12, 256, 64), 24), ((1, 8, 8192, 128), 256),
               ((8, 32, 1024, 128), 64), ((4, 16, 2048, 96), 64), ((2, 8, 2048, 256), 128), ((16, 8, 2048, 32), 64)]  # fmt: skip
OTHERS = (4, 12, 4096, 64)  # the shape of the masks that stand in no table of targets
GROUPED = (4, 32, 4096, 128)  # the shape of problems whose heads share keys
GROUPED_KV_HEADS = 8
# With relative biases: of encoders as T5 and MPNet are, and of decoders with ALiBi's, B, H, S, d and the mask.
BUCKETED = [((8, 12, 512, 64), "all", masks.everything), ((16, 12, 1024, 64), "all", masks.everything), ((1, 12, 4096, 64), "all", masks.everything),
            ((1, 12, 4096, 64), "window", lambda: masks.window(256)), ((1, 12, 8192, 64), "longformer", lambda: masks.longformer(256, 64)),
            ((1, 12, 8192, 64), "packed", lambda: masks.documents_from(masks.drawn_starts(8192, 0), 8192, right=None))]  # fmt: skip
LINEAR = [((1, 32, 2048, 128), "causal", masks.causal), ((4, 16, 2048, 64), "causal", masks.causal),
          ((1, 32, 8192, 128), "sliding", lambda: masks.sliding(1024))]  # fmt: skip
# Chunks of prompts: B, H, S, d, heads of keys, and the keys before and of the chunk.
CHUNKS = [((1, 32, 512, 128), 8, 12345), ((1, 32, 2048, 128), 8, 20000), ((4, 32, 256, 128), 8, 4133),
          ((1, 64, 100, 128), 8, 30000), ((8, 16, 128, 64), 16, 2100), ((2, 16, 1000, 64), 16, 5000)]  # fmt: skip


@dataclass
class Case:
    shape: tuple
    dtype: str
    family: str
    make: Callable  # -> masks.MaskCase
    softcap: float | None = None
    width: int = 0  # of the mask, where its family has one
    kv_heads: int | None = None  # fewer than H where heads share keys
    keys: int | None = None  # more than S where queries are the last positions of a longer text
    bias: Bias | None = None  # what is added to scores

    @property
    def kind(self):
        """What FlashAttention 4 compiles its kernels for, once for all shapes of a head dimension."""
        return self.family, self.width, self.dtype, self.shape[3], self.kv_heads, self.keys and self.keys - self.shape[2]

    def matches(self, texts) -> bool:
        label = f"({','.join(map(str, self.shape))}) {self.dtype} {self.family}"
        return not texts or any(text in label for text in texts)


def table_masks(length: int, w: int):
    found = [("causal", masks.causal), ("window", lambda: masks.window(w)), ("dilated", lambda: masks.dilated(w, 2)),
             ("longformer", lambda: masks.longformer(w, w)),
             ("bigbird", lambda: masks.bigbird(length, 64, 3, 2, 3, 1))]  # fmt: skip
    if length >= 1024:
        found.append(("documents", lambda: masks.documents(length)))
    return found


def other_masks(length: int):
    return [("strided", lambda: masks.strided(64)), ("prefix", lambda: masks.prefix(512)),
            ("segments", lambda: masks.segments(length)), ("natten", lambda: masks.natten(64, 64, 13, 13)),
            ("sink", lambda: masks.sink_and_window(4, 256)), ("heads", lambda: masks.by_head(32, 32)),
            ("random", lambda: masks.random_elements(length, 0.05))]  # fmt: skip


def cases():
    """What matters most first: a run may end when its time is over."""
    first = [case for shape, w in SHAPES[:3] for case in table_cases(shape, w, "f16")]
    rest = [case for shape, w in SHAPES[3:] for case in table_cases(shape, w, "f16")]
    others = [Case(OTHERS, "f16", family, make) for family, make in other_masks(OTHERS[2])]
    grouped = [Case(GROUPED, "f16", family, make, kv_heads=GROUPED_KV_HEADS) for family, make in grouped_masks(GROUPED[2])]
    bf16 = [case for shape, w in SHAPES for case in table_cases(shape, w, "bf16")]
    return first + others + rest + grouped + bf16


def grouped_masks(length: int):
    return [("causal", masks.causal), ("sliding", lambda: masks.sliding(1024)), ("documents", lambda: masks.documents(length))]


def capped_cases(softcap: float):
    return [Case((4, 16, 4096, head_dim), dtype, family, make, softcap)
            for dtype in ("f16", "bf16") for head_dim in (64, 128, 256)
            for family, make in (("causal", masks.causal), ("window", lambda: masks.window(512)))]  # fmt: skip


def biased_cases():
    biases = [(case, Bias("buckets", 128)) for case in BUCKETED] + [(case, Bias("alibi", case[0][2] - 1)) for case in LINEAR]
    return [Case(shape, dtype, family, make, bias=bias) for dtype in ("f16", "bf16") for (shape, family, make), bias in biases]


def chunk_cases():
    return [Case(shape, dtype, family, make, kv_heads=kv_heads if kv_heads < shape[1] else None, keys=keys)
            for (shape, kv_heads, keys), dtype in zip(CHUNKS, ("f16", "bf16") * 3)
            for family, make in (("causal", masks.causal), ("sliding", lambda: masks.sliding(1024)),
                                 ("sink", lambda: masks.sink_and_window(4, 1024)))]  # fmt: skip


def resized_cases(head_dim: int):
    """The table's shapes with another head dimension than their own, in f16."""
    return [case for (*sizes, own), w in SHAPES if own != head_dim for case in table_cases((*sizes, head_dim), w, "f16")]


def cases_of(more: bool, softcap: float | None = None, head_dim: int | None = None):
    if softcap is not None:
        return capped_cases(softcap)
    if head_dim is not None:
        return resized_cases(head_dim)
    if not more:
        return cases()
    return [Case(shape, "f16", family, make) for shape, w in MORE_SHAPES for family, make in more_masks(shape[2], w)]


def more_masks(length: int, w: int):
    found = [("causal", masks.causal), ("sliding", lambda: masks.sliding(w)),
             ("longformer", lambda: masks.longformer(w, 5))]  # fmt: skip
    return found + ([("documents", lambda: masks.documents(length))] if length >= 2048 else [])


def table_cases(shape, w, dtype):
    widths = {"window": w, "dilated": w, "longformer": w}
    return [Case(shape, dtype, family, make, width=widths.get(family, 0)) for family, make in table_masks(shape[2], w)]


def peers_of(case: Case, providers: dict) -> list[str]:
    """Who is asked: all, but only FlexAttention where scores are capped, and those that take a bias where there is one."""
    if case.softcap is not None:
        return ["flex128", "flex64"]
    if case.bias is not None:
        forms = ["table", "linear"] if case.bias.linear else ["table"]
        return ["stof_unbiased", *(f"flex{block}_{form}" for form in forms for block in (128, 64)), "sdpa_dense_efficient", "sdpa_dense_cudnn"]
    return list(providers)
