# SPDX-License-Identifier: Apache-2.0
"""Masks that the tables of docs/benchmarks.md do not have, for problems that bench/peers/more_families.py draws: each in every
form that a peer takes, as those of masks.py are. Tables lie on `device`."""
from __future__ import annotations

import random

import torch
from masks import MaskCase

TABLE = "table.npy"


def int32s(values, device: str) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32, device=device)


def packed_starts(length: int, least: int, most: int, draw: random.Random) -> list[int]:
    """Of documents of so many tokens; the last has what is left."""
    starts = [0]
    while (following := starts[-1] + draw.randint(least, most)) < length:
        starts.append(following)
    return starts


def prefix_documents(starts: list[int], prefixes: list[int], length: int, device: str) -> MaskCase:
    """Documents whose first tokens, as many as `prefixes` says of each, see each other both ways, the others what was before."""
    documents = list(zip(starts, [*starts[1:], length], prefixes))
    listed = [span for begin, end, prefix in documents
              for span in (f"[{begin},{end},{begin},{begin + prefix},full]", f"[{begin},{end},{begin},{end},causal]")]
    ids = int32s([i for i, (begin, end, _) in enumerate(documents) for _ in range(begin, end)], device)
    ends = int32s([begin + prefix for begin, end, prefix in documents for _ in range(begin, end)], device)
    return MaskCase(f"segments([{','.join(listed)}])", lambda q, k: (ids[q] == ids[k]) & ((k <= q) | (k < ends[q])),
                    "(load(aux[0][q[0]]) == load(aux[0][k[0]])) & ((k <= q) | (k < load(aux[1][q[0]])))", tensors=[ids, ends])


def drawn_blocks(size: int, length: int, share: float, causal: bool, draw: random.Random) -> list[list[bool]]:
    """Of each row of blocks that share of what it may see, its own block always."""
    count, table = -(-length // size), []
    for i in range(count):
        others = [j for j in range(i if causal else count) if j != i]
        chosen = {i, *draw.sample(others, k=round(share * len(others)))}
        table.append([j in chosen for j in range(count)])
    return table


def blocks(size: int, tables: list, length: int, causal: bool, device: str) -> MaskCase:
    """tables: one, or one for each head, [R, R]. Without causal cuDNN's block-sparse attention takes them, in blocks of 64."""
    by_head, whole = len(tables) > 1, torch.tensor(tables, dtype=torch.bool, device=device)
    table, flat = whole if by_head else whole[0], None
    if not by_head:
        flat = torch.nn.functional.pad(table.to(torch.int32), (0, 1))  # CuTe refuses a table of one element

    def allows(q, k):
        found = table[q // size, k // size]
        return found & (k <= q) if causal else found

    def allows_of_head(h, q, k):
        found = table[h, q // size, k // size]
        return found & (k <= q) if causal else found

    case = MaskCase(f"blocks({size},{TABLE})" + (" & causal" if causal else ""), allows, files={TABLE: table})
    if by_head:
        case.by_head = allows_of_head
    else:
        shift = size.bit_length() - 1
        case.cute_source = f"(load(aux[0][q[0] >> {shift}, k[0] >> {shift}]) != load(0))" + (" & (k <= q)" if causal else "")
        case.tensors = [flat]
    if not causal:
        rows, repeat = -(-length // 64), size // 64
        case.block = 64
        case.table = table.repeat_interleave(repeat, -1).repeat_interleave(repeat, -2)[..., :rows, :rows].contiguous()
    return case


def slashes(length: int, w: int, columns: list[tuple[int, int]], diagonals: list[tuple[int, int]], device: str) -> MaskCase:
    """Causal: the last w tokens, columns of keys [begin, end) that all later rows see, and diagonals of distances from a to b."""
    flags = torch.zeros(length, dtype=torch.int32)
    for begin, end in columns:
        flags[begin:end] = 1
    flags = flags.to(device)

    def allows(q, k):
        found = (q - k <= w) | (flags[k] != 0)
        for a, b in diagonals:
            found = found | ((q - k >= a) & (q - k <= b))
        return (k <= q) & found

    spans = ",".join(f"[0,{length},{begin},{end},full]" for begin, end in columns)
    terms = [f"window({w})", f"segments([{spans}])", *(f"where(q - k >= {a} & q - k <= {b})" for a, b in diagonals)]
    sources = [f"(q - k <= {w})", "(load(aux[0][k[0]]) != load(0))", *(f"((q - k >= {a}) & (q - k <= {b}))" for a, b in diagonals)]
    return MaskCase(f"causal & ({' | '.join(terms)})", allows, f"(k <= q) & ({' | '.join(sources)})", tensors=[flags])


def tree(length: int, parents: list[int], device: str) -> MaskCase:
    """Drafts at the end of a text. parents: of each draft an earlier one, by its number, or -1, the last token of the text.
    Numbered depth first, who descends from a token is an interval: [enter, leave)."""
    prefix = length - len(parents)
    sizes = [1] * len(parents)
    for draft in reversed(range(len(parents))):
        if parents[draft] >= 0:
            sizes[parents[draft]] += sizes[draft]
    following = [prefix, *([0] * len(parents))]  # where the next child of a parent enters, that of the text's end first
    for draft, parent in enumerate(parents):
        following[draft + 1] = following[parent + 1] + 1
        following[parent + 1] += sizes[draft]
    # A draft's place is by now behind all of its children: its interval's end.
    leaves = following[1:]
    enter = int32s([*range(prefix), *(end - size for end, size in zip(leaves, sizes))], device)
    leave = int32s([*([length] * prefix), *leaves], device)
    listed = [*range(-1, prefix - 1), *(prefix + parent for parent in parents)]
    return MaskCase(f"tree([{','.join(map(str, listed))}])", lambda q, k: (enter[k] <= enter[q]) & (enter[q] < leave[k]),
                    "(load(aux[0][k[0]]) <= load(aux[0][q[0]])) & (load(aux[0][q[0]]) < load(aux[1][k[0]]))", tensors=[enter, leave])


def words_of(bits: torch.Tensor) -> torch.Tensor:
    """int32 [S, words of 32 keys], the least bit first."""
    padded = torch.nn.functional.pad(bits, (0, -bits.shape[1] % 32)).view(bits.shape[0], -1, 32)
    words = torch.zeros(padded.shape[:2], dtype=torch.int32, device=bits.device)
    for i in range(32):
        words |= padded[:, :, i].to(torch.int32) << i
    return words


def checkers(length: int, starts: list[int], share: float, seed: int, device: str) -> MaskCase:
    """Squares along the diagonal that begin at `starts`, of whose elements that share is allowed, the diagonal always."""
    ids = torch.zeros(length, dtype=torch.int32)
    for start in starts[1:]:
        ids[start:] += 1
    chosen = torch.rand(length, length, generator=torch.Generator().manual_seed(seed)) < share
    bits = ((ids[:, None] == ids[None, :]) & chosen | torch.eye(length, dtype=torch.bool)).to(device)
    return MaskCase("bits", lambda q, k: bits[q, k], "load(aux[0][q[0], k[0] >> 5] >> k[0] % 32 & 1) != load(0)",
                    bits=bits, tensors=[words_of(bits)])


def beyond(w: int, causal: bool) -> MaskCase:
    """What a window leaves out."""
    if causal:
        return MaskCase(f"causal & !window({w})", lambda q, k: q - k > w, f"q - k > {w}")
    return MaskCase(f"!window({w})", lambda q, k: (q - k > w) | (k - q > w), f"(q - k > {w}) | (k - q > {w})")


def same_block(length: int, n: int) -> MaskCase:
    """Documents of n tokens, to who sees that: launches by lengths take them."""
    return MaskCase(f"where(q / {n} == k / {n})", lambda q, k: q // n == k // n, f"(q // {n}) == (k // {n})",
                    document_starts=list(range(0, length, n)), document_window=(None, None))


def squared_distance(w: int) -> MaskCase:
    """A causal window, to who sees that: native windows take it."""
    return MaskCase(f"where((q - k) * (q - k) <= {w * w} & q >= k)", lambda q, k: ((q - k) * (q - k) <= w * w) & (q >= k),
                    f"((q - k) * (q - k) <= {w * w}) & (q >= k)", window=(w, 0))


def near_in_block(n: int, w: int) -> MaskCase:
    """Columns of a picture whose rows have n pixels."""
    return MaskCase(f"where(abs(q % {n} - k % {n}) <= {w})", lambda q, k: (q % n - k % n <= w) & (k % n - q % n <= w),
                    f"(q % {n} - k % {n} <= {w}) & (k % {n} - q % {n} <= {w})")


def sum_not_divided(n: int) -> MaskCase:
    return MaskCase(f"where((q + k) % {n} != 0)", lambda q, k: (q + k) % n != 0, f"((q + k) % {n}) != 0")


def cone(w: int, n: int) -> MaskCase:
    return MaskCase(f"where(abs(q - k) <= {w} + q / {n})", lambda q, k: (q - k <= w + q // n) & (k - q <= w + q // n),
                    f"(q - k <= {w} + q // {n}) & (k - q <= {w} + q // {n})")


def comb(n: int, teeth: int) -> MaskCase:
    """Of each n distances back the first few."""
    return MaskCase(f"where(q >= k & (q - k) % {n} < {teeth})", lambda q, k: (k <= q) & ((q - k) % n < teeth),
                    f"(k <= q) & ((q + {n - 1} * k) % {n} < {teeth})")
