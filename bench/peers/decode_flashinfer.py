# SPDX-License-Identifier: Apache-2.0
"""FlashInfer as a peer of decode attention and of chunks: its kernels over pages, for one query on CUDA cores too. Keys in rows
are given as pages of its usual size, in a copy. It compiles when it is first asked, unless its data/aot holds the module."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from decode_case import Case
from decode_providers import Band, band_of
from providers import Contender, NotTaken

PAGE = 64  # of keys that lie in rows
WORKSPACE_BYTES = 2**28
MOST_PAIRS = 2**30  # of a mask of single bits: it is given as bytes, and offsets into it have 31 bits


def pages_of(case: Case, begin: int):
    """k and v [pages, kv_heads, keys of a page, d], the pages of each item, and how many keys its last one holds."""
    if case.page:
        return (case.k, case.v), case.table, case.keys - (case.table.shape[1] - 1) * case.page
    count = -(-(case.keys - begin) // PAGE)
    rest = case.keys - begin - (count - 1) * PAGE

    def paged(pool):
        whole = F.pad(pool[:, :, begin:], (0, 0, 0, PAGE - rest))
        return whole.unflatten(2, (count, PAGE)).transpose(1, 2).flatten(0, 1).contiguous()

    table = torch.arange(case.batch * count, device=case.k.device, dtype=torch.int32).view(case.batch, count)
    return (paged(case.k), paged(case.v)), table, rest


def band_or_mask(case: Case) -> tuple[Band, dict]:
    """A mask of its user's is of single bits, and every key is read."""
    try:
        band = band_of(case)
        return band, {"causal": band.causal}
    except NotTaken:
        if case.batch * case.dense.numel() > MOST_PAIRS:
            raise NotTaken("a mask of its user's of more than 2^30 pairs") from None
        return Band(0, False), {"custom_mask": case.dense.flatten().repeat(case.batch)}


def on_tensor_cores(case: Case):
    from flashinfer import BatchPrefillWithPagedKVCacheWrapper
    band, options = band_or_mask(case)
    keys, table, rest = pages_of(case, band.begin)
    wrapper = BatchPrefillWithPagedKVCacheWrapper(workspace(), "HND", backend="fa2")
    wrapper.plan(starts(case, case.queries), *lists(case, table, rest), case.shape[1], case.kv_heads, case.head_dim,
                 keys[0].shape[2], window_left=-1 if band.left is None else band.left, q_data_type=case.q.dtype,
                 **options)  # fmt: skip
    return launched(case, keys, wrapper)


def on_cuda_cores(case: Case):
    from flashinfer import BatchDecodeWithPagedKVCacheWrapper
    if case.queries > 1:
        raise NotTaken("one query alone")
    band = band_of(case)
    keys, table, rest = pages_of(case, band.begin)
    wrapper = BatchDecodeWithPagedKVCacheWrapper(workspace(), "HND", backend="fa2")
    wrapper.plan(*lists(case, table, rest), case.shape[1], case.kv_heads, case.head_dim, keys[0].shape[2],
                 window_left=-1 if band.left is None else band.left, q_data_type=case.q.dtype)  # fmt: skip
    return launched(case, keys, wrapper)


def workspace():
    return torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")


def starts(case: Case, each: int):
    return torch.arange(0, (case.batch + 1) * each, each, dtype=torch.int32, device="cuda")


def lists(case: Case, table, rest):
    """Where the pages of each item begin in the list of all, that list, and the keys of each item's last page."""
    return starts(case, table.shape[1]), table.flatten(), torch.full((case.batch,), rest, dtype=torch.int32, device="cuda")


def launched(case: Case, keys, wrapper):
    q = case.q.transpose(1, 2).flatten(0, 1).contiguous()
    return Contender(lambda i: wrapper.run(q, keys), lambda out: out.unflatten(0, (case.batch, case.queries)).transpose(1, 2))


PROVIDERS = {"flashinfer": on_tensor_cores, "flashinfer_cores": on_cuda_cores}
