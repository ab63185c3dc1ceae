# SPDX-License-Identifier: Apache-2.0
"""Verifying draft trees in two parts, as who knows libraries without trees may do it: all keys in front of the drafts without a mask,
the drafts' own keys with it, and both put together by their log-sum-exps. Drafts' keys lie packed, as a server has just made them."""
from __future__ import annotations

import functools
import math

import torch
from providers import Contender, NotTaken
from step_providers import WORKSPACE_BYTES, pages_listed
from tree_case import TreeCase

TILE_ROOM = 256  # queries and keys behind the last ones that a mask_mod may be asked about


def few_rows(problem) -> bool:
    """Drafts of all heads that share keys: a tile of 64 rows holds them."""
    return problem.drafts * problem.heads // problem.kv_heads <= 64


def tree_tensors(first, words):
    """As tree_mask_mod.py reads them."""
    return [first, torch.nn.functional.pad(words, (0, TILE_ROOM // 32 + 1, 0, TILE_ROOM))]


def has_keys_before(case: TreeCase):
    if min(case.lengths) == case.problem.drafts:
        raise NotTaken("an item without keys in front of its drafts")


def draft_keys(case: TreeCase):
    """k and v [drafts of all items, kv_heads, d]"""
    items = torch.arange(case.batch, device=case.device)[:, None]
    places = case.first[:, None].long() + torch.arange(case.problem.drafts, device=case.device)
    return tuple(rows.transpose(1, 2)[items, places].flatten(0, 1) for rows in case.in_rows)


def merge(out, lse, other, other_lse):
    """Rows [rows, heads, d] with natural log-sum-exps [heads, rows]."""
    share = torch.sigmoid(lse - other_lse).transpose(0, 1)[..., None]
    return (out.float() * share + other.float() * (1 - share)).to(out.dtype)


@functools.cache
def merge_compiled():
    return torch.compile(merge, dynamic=True)


def flash4_parts(case: TreeCase):
    from flash_attn.cute.interface import _flash_attn_fwd
    from tree_mask_mod import draft_tree
    has_keys_before(case)
    problem, (k, v) = case.problem, (pool.transpose(1, 2) for pool in (case.k, case.v))
    rows = 64 if few_rows(problem) else 128
    usual = {"cu_seqlens_q": case.starts_there, "max_seqlen_q": problem.drafts, "return_lse": True}
    before = {**usual, "seqused_k": case.first, "max_seqlen_k": problem.longest.keys - problem.drafts,
              "page_table": case.table if problem.page else None, "tile_mn": (rows, 64) if problem.page == 64 else None}  # fmt: skip
    drafts = {**usual, "cu_seqlens_k": case.starts_there, "max_seqlen_k": problem.drafts, "tile_mn": (rows, 64),
              "mask_mod": draft_tree, "aux_tensors": tree_tensors(torch.zeros_like(case.first), case.words)}  # fmt: skip
    own, merged = draft_keys(case), merge_compiled()

    def launch(i):
        parts = (*_flash_attn_fwd(case.q, k, v, **before)[:2], *_flash_attn_fwd(case.q, *own, **drafts)[:2])
        return merged(*parts)

    return Contender(launch)


def flashinfer_parts(case: TreeCase):
    import flashinfer
    has_keys_before(case)
    problem = case.problem
    if not problem.page:
        raise NotTaken("keys in rows")
    heads = (problem.heads, problem.kv_heads, problem.head_dim)
    workspaces = [torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=case.device) for _ in range(2)]
    before = flashinfer.BatchPrefillWithPagedKVCacheWrapper(workspaces[0], "HND", backend="fa2")
    before.plan(case.starts_there, *pages_before(case), *heads, problem.page, causal=False, q_data_type=case.q.dtype)
    drafts = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(workspaces[1], "NHD", backend="fa2")
    drafts.plan(case.starts_there, case.starts_there, *heads, custom_mask=case.seen.flatten(), q_data_type=case.q.dtype)
    own, pools = draft_keys(case), (case.k, case.v)
    outs = [torch.full_like(case.q, math.nan) for _ in range(2)]

    def launch(i):
        first = before.run(case.q, pools, out=outs[0], return_lse=True)
        return flashinfer.merge_state(*first, *drafts.run(case.q, *own, out=outs[1], return_lse=True))[0]

    return Contender(launch)


def pages_before(case: TreeCase):
    """Of the keys in front of drafts: where the pages of each item begin in the list of all, that list, and the keys of its last
    page."""
    page = case.problem.page
    firsts = case.first.tolist()
    counts = [-(-keys // page) for keys in firsts]
    begins = torch.tensor([0, *counts]).cumsum(0).int().to(case.device)
    pages = torch.cat([row[:count] for row, count in zip(case.table, counts)])
    rest = torch.tensor([keys - (count - 1) * page for keys, count in zip(firsts, counts)], dtype=torch.int32, device=case.device)
    return begins, pages, rest


PROVIDERS = {"fa4_parts": flash4_parts, "flashinfer_parts": flashinfer_parts}
