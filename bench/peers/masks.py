# SPDX-License-Identifier: Apache-2.0
"""The benchmark's masks, each in every form that a peer takes: one definition over index tensors (dense truth and
FlexAttention), one over CuTe integers (FlashAttention 4), and what a native path would be called with."""
from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Callable

import torch


@dataclass
class MaskCase:
    text: str                                   # our grammar
    allows: Callable | None                     # (q, k) index tensors -> bool tensor; & and | only, so Flex can trace it
    cute_source: str | None = None              # CuTe expression over q and k for a FlashAttention 4 mask_mod; None: not given to it
    window: tuple[int, int] | None = None       # native window of FlashAttention
    causal: bool = False
    block: int | None = None                    # exact at this block size: block-sparse peers take it
    table: torch.Tensor | None = None           # bool [blocks, blocks] for block masks
    document_starts: list[int] | None = None    # varlen peers, with
    document_window: tuple = (None, 0)          # how far a document's tokens see back and ahead; None: to its ends
    tensors: list[torch.Tensor] = field(default_factory=list)  # int32, what cute_source reads as aux[i]
    by_head: Callable | None = None             # (head, q, k) in place of `allows`, for masks that differ by head
    by_item: Callable | None = None             # (item, q, k) in place of `allows`, for masks that differ by item; cute_source reads
    items: int = 1                              # batch[0] then. How many items there are
    item_documents: list | None = None          # of each item (begin, end, keys): rows that see so many keys from `begin` on, for
                                                # varlen peers, with document_window
    bits: torch.Tensor | None = None            # bool [S, S]: the mask itself, where no text says it
    files: dict = field(default_factory=dict)   # name of a .npy file in the text: bool tensor
    name: str | None = None                     # what results say in place of a text that is long, or names files

    @property
    def said(self) -> str:
        return self.name or self.text

    def dense(self, length: int, device: str = "cuda", heads: int = 1, queries: int | None = None) -> torch.Tensor:
        """bool [queries, S], of the last positions where they are fewer than S; of masks that differ by head [heads, queries, S],
        by item [items, 1, queries, S]."""
        queries = queries or length
        q = torch.arange(length - queries, length, device=device)[:, None]
        k = torch.arange(length, device=device)[None, :]
        if self.by_item:
            b = torch.arange(self.items, device=device)[:, None, None, None]
            return self.by_item(b, q, k).expand(self.items, 1, queries, length).contiguous()
        if self.by_head:
            h = torch.arange(heads, device=device)[:, None, None]
            return self.by_head(h, q, k).expand(heads, queries, length).contiguous()
        return self.allows(q, k).expand(queries, length).contiguous()


def everything() -> MaskCase:
    return MaskCase("all", lambda q, k: k >= 0, "k >= 0")


def causal() -> MaskCase:
    return MaskCase("causal", lambda q, k: k <= q, "k <= q", causal=True, window=None)


def window(w: int) -> MaskCase:
    return MaskCase(f"window({w})", lambda q, k: (q - k <= w) & (k - q <= w), f"(q - k <= {w}) & (k - q <= {w})", window=(w, w))


def sliding(w: int) -> MaskCase:
    return MaskCase(f"causal & window({w})", lambda q, k: (k <= q) & (q - k <= w), f"(k <= q) & (q - k <= {w})", window=(w, 0))


def dilated(n: int, d: int) -> MaskCase:
    reach = n * d
    return MaskCase(f"dilated({n},{d})",
                    lambda q, k: (q - k <= reach) & (k - q <= reach) & ((q - k) % d == 0),
                    f"(q - k <= {reach}) & (k - q <= {reach}) & ((q + {d - 1} * k) % {d} == 0)")


def longformer(w: int, g: int) -> MaskCase:
    return MaskCase(f"longformer({w},{g})",
                    lambda q, k: ((q - k <= w) & (k - q <= w)) | (q < g) | (k < g),
                    f"((q - k <= {w}) & (k - q <= {w})) | (q < {g}) | (k < {g})")


def splitmix64(x: int) -> int:
    mask = (1 << 64) - 1
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return x ^ (x >> 31)


def random_blocks_table(blocks: int, count: int, seed: int) -> torch.Tensor:
    """As random_blocks(b, n, seed) of docs/masks.md: per row-block the `count` column blocks with the smallest key."""
    table = torch.zeros(blocks, blocks, dtype=torch.bool)
    for i in range(blocks):
        keys = [(splitmix64((seed + 0x9E3779B97F4A7C15 * (i * 2**32 + j + 1)) % 2**64), j) for j in range(blocks)]
        for _, j in sorted(keys)[:count]:
            table[i, j] = True
    return table


def bigbird(length: int, b: int, w: int, g: int, r: int, seed: int, device: str = "cuda") -> MaskCase:
    blocks = (length + b - 1) // b
    i = torch.arange(blocks)
    table = (i[:, None] - i[None, :]).abs() <= (w - 1) // 2
    first, last = (g + 1) // 2, g // 2
    edge = (i < first) | (i >= blocks - last)
    table = (table | edge[:, None] | edge[None, :] | random_blocks_table(blocks, r, seed)).to(device)
    flat = torch.nn.functional.pad(table.to(torch.int32), (0, 1))  # CuTe refuses a table of one element
    shift = b.bit_length() - 1
    return MaskCase(f"bigbird({b},{w},{g},{r},{seed})", lambda q, k: table[q // b, k // b],
                    f"load(aux[0][q[0] >> {shift}, k[0] >> {shift}]) != load(0)", block=b, table=table, tensors=[flat])


def documents(length: int, seed: int = 0) -> MaskCase:
    """Causal documents of 512..1500 tokens (drawn), as served when requests are packed."""
    return documents_from(drawn_starts(length, seed), length)


def drawn_starts(length: int, seed: int) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    starts = [0]
    while True:
        step = int(torch.randint(512, 1501, (1,), generator=generator))
        if starts[-1] + step >= length:
            break
        starts.append(starts[-1] + step)
    return starts


def documents_from(starts: list[int], length: int, device: str = "cuda", left: int | None = None,
                   right: int | None = 0) -> MaskCase:
    """Documents whose tokens see so far back and ahead; None: to the document's ends."""
    ids = torch.zeros(length, dtype=torch.int32)
    for start in starts[1:]:
        ids[start:] += 1
    ids = ids.to(device)

    def together(q, k):
        found = ids[q] == ids[k]
        if right is not None:
            found = found & ((k <= q) if right == 0 else (k - q <= right))
        return found if left is None else found & (q - k <= left)

    terms = [f"documents([{','.join(map(str, starts))}])"] + ["causal"] * (right == 0)
    sources = ["(load(aux[0][q[0]]) == load(aux[0][k[0]]))"] + ["(k <= q)"] * (right == 0)
    if right:
        sources.append(f"(k - q <= {right})")
    if left is not None:
        terms.append(f"window({left})" if right in (0, left) else f"window({left},{right})")
        sources.append(f"(q - k <= {left})")
    return MaskCase(" & ".join(terms), together, " & ".join(sources), document_starts=starts, document_window=(left, right), tensors=[ids])


def few_documents(starts: list[int]) -> MaskCase:
    """Causal documents that begin at 0 and at `starts`, said by comparisons alone."""
    def together(q, k):
        found = k <= q
        for start in starts:
            found = found & ((k >= start) | (q < start))
        return found

    return MaskCase(f"documents([{','.join(map(str, [0, *starts]))}]) & causal", together,
                    " & ".join(["(k <= q)", *(f"((k >= {start}) | (q < {start}))" for start in starts)]))


def strided(s: int) -> MaskCase:
    """The strided pattern of the Sparse Transformer."""
    return MaskCase(f"causal & (window({s}) | strided({s}))", lambda q, k: (k <= q) & ((q - k <= s) | ((q - k) % s == 0)),
                    f"(k <= q) & ((q - k <= {s}) | ((q - k) % {s} == 0))")


def prefix(n: int) -> MaskCase:
    return MaskCase(f"prefix({n})", lambda q, k: (k < n) | (k <= q), f"(k < {n}) | (k <= q)")


def sink_and_window(g: int, w: int) -> MaskCase:
    return MaskCase(f"causal & (window({w}) | sink({g}))", lambda q, k: (k <= q) & ((q - k <= w) | (k < g)),
                    f"(k <= q) & ((q - k <= {w}) | (k < {g}))")


def sink_or_window(g: int, w: int) -> MaskCase:
    return MaskCase(f"sink({g}) | window({w})", lambda q, k: (k < g) | ((q - k <= w) & (k - q <= w)),
                    f"(k < {g}) | ((q - k <= {w}) & (k - q <= {w}))")


def segments(length: int) -> MaskCase:
    """A causal sample, one that begins with the end of the first, and one that sees both ways."""
    a, b, c = length // 4, length // 16, 5 * length // 8
    text = f"segments([[0,{a},0,{a},causal],[{a},{c},{b},{c},causal],[{c},{length},{c},{length},full]])"
    return MaskCase(text,
                    lambda q, k: ((q < a) & (k <= q)) | ((q >= a) & (q < c) & (k >= b) & (k <= q)) | ((q >= c) & (k >= c)),
                    f"((q < {a}) & (k <= q)) | ((q >= {a}) & (q < {c}) & (k >= {b}) & (k <= q)) | ((q >= {c}) & (k >= {c}))")


def natten(height: int, width: int, kernel_height: int, kernel_width: int, device: str = "cuda") -> MaskCase:
    """Pixels of a grid that see the kernel_height x kernel_width around them, shifted inwards at the borders."""
    def begin(x, kernel, size):
        return torch.clamp(x - kernel // 2, 0, size - kernel)

    def near(a, b, kernel, size):
        return (b >= begin(a, kernel, size)) & (b < begin(a, kernel, size) + kernel)

    pixels = torch.arange(height * width, dtype=torch.int32, device=device)
    first = [begin(pixels // width, kernel_height, height), begin(pixels % width, kernel_width, width)]
    sources = [f"(load(aux[{i}][q[0]]) <= {at}) & ({at} < load(aux[{i}][q[0]]) + {kernel})"
               for i, at, kernel in ((0, f"k // {width}", kernel_height), (1, f"k % {width}", kernel_width))]
    return MaskCase(f"natten({height},{width},{kernel_height},{kernel_width})",
                    lambda q, k: near(q // width, k // width, kernel_height, height) & near(q % width, k % width, kernel_width, width),
                    " & ".join(sources), tensors=first)


def by_ranges(ranges: list[tuple[int, MaskCase]], rest: MaskCase) -> MaskCase:
    """Heads below the first number have the first mask, those from there on below the second the second; the rest has another.
    Of masks that do not differ by head."""
    ends = [0, *(end for end, _ in ranges)]
    spans = [(begin, end, case) for begin, (end, case) in zip(ends, ranges)]

    def allows(h, q, k):
        found = rest.allows(q, k) & (h >= ends[-1])
        for begin, end, case in spans:
            found = found | (case.allows(q, k) & (h >= begin) & (h < end))
        return found

    texts = [f"{begin}-{end - 1}: {case.text}" if end - begin > 1 else f"{begin}: {case.text}" for begin, end, case in spans]
    return MaskCase(f"heads({', '.join(texts)}, *: {rest.text})", rest.allows, by_head=allows)


def by_head(w: int, g: int) -> MaskCase:
    """Half of twelve heads local, a quarter causal, a quarter local with global tokens."""
    return by_ranges([(6, window(w)), (9, causal())], longformer(w, g))


def random_elements(length: int, share: float, seed: int = 0, device: str = "cuda") -> MaskCase:
    generator = torch.Generator().manual_seed(seed)
    bits = (torch.rand(length, length, generator=generator) < share).to(device)
    return MaskCase(f"bits, {100 * share:g} % at random", lambda q, k: bits[q, k], bits=bits)


NAMED = {  # a text, N for each number and N... for any number of them: the mask for so many positions
    "all": lambda length: everything(),
    "causal": lambda length: causal(),
    "window(N)": lambda length, w: window(w),
    "causal & window(N)": lambda length, w: sliding(w),
    "dilated(N,N)": lambda length, n, d: dilated(n, d),
    "longformer(N,N)": lambda length, w, g: longformer(w, g),
    "bigbird(N,N,N,N,N)": lambda length, *numbers: bigbird(length, *numbers),
    "prefix(N)": lambda length, n: prefix(n),
    "causal & (window(N) | sink(N))": lambda length, w, g: sink_and_window(g, w),
    "documents([N...]) & causal": lambda length, first, *starts: few_documents(list(starts)),
}


def named(text: str, length: int) -> MaskCase:
    """The case of this text. Raises ValueError where there is none."""
    for form, make in NAMED.items():
        pattern = re.escape(form).replace(r"N\.\.\.", r"\d+(?:,\d+)*").replace("N", r"\d+")
        if re.fullmatch(pattern, text):
            case = make(length, *map(int, re.findall(r"\d+", text)))
            if case.text == text:
                return case
    raise ValueError(f"mask {text!r}; accepted: {'; '.join(NAMED)}")
