# SPDX-License-Identifier: Apache-2.0
"""The peers of verifying draft trees, on a GPU. Each takes a tree_case.TreeCase and gives a Contender, or says why it has no path.
What they want besides of masks and of keys, copies in rows for one, is made before; results say where keys lie for them."""
from __future__ import annotations

import functools
import math

import torch
import tree_parts
from providers import Contender, NotTaken, block_lists, by_tile, code_of_its_own, sdpa_launched
from step_providers import WORKSPACE_BYTES, pages_listed
from tree_case import TreeCase
from tree_parts import TILE_ROOM, few_rows, tree_tensors

MOST_MASK_BYTES = 4e9
IN_ROWS = {"keys_lie": "in rows"}
MOST_TILE = 128 * 128  # numbers of k in one: there are two of k, two of v and one of q


def small_mask(count: int, each: int):
    if count * each > MOST_MASK_BYTES:
        raise NotTaken(f"a mask of more than {MOST_MASK_BYTES / 1e9:.0f} GB")


def bias_of(case: TreeCase):
    """0 where a pair is allowed, else minus infinity, [items, 1, drafts, keys that there is room for]."""
    small_mask(case.problem.rows * case.room, 4)
    return torch.zeros(case.batch, 1, case.problem.drafts, case.room, device=case.device, dtype=case.q.dtype).masked_fill_(
        ~case.allowed()[:, None], -math.inf)  # fmt: skip


def sdpa(backend, case: TreeCase):
    options = {"attn_mask": bias_of(case), "enable_gqa": case.problem.heads != case.problem.kv_heads}
    contender = sdpa_launched(backend, lambda i: (case.padded_q, *case.in_rows), options)
    contender.facts = IN_ROWS
    return contender


def sdpa_stacked(backend, case: TreeCase):
    """Queries of heads that share keys as those of one head, with the mask once for each: this backend has no such heads."""
    group = case.problem.heads // case.problem.kv_heads
    small_mask(case.problem.rows * case.room * group, 4)
    bias = bias_of(case).repeat(1, 1, group, 1).expand(-1, case.problem.kv_heads, -1, -1)
    q = case.padded_q.unflatten(1, (case.problem.kv_heads, group)).flatten(2, 3)
    contender = sdpa_launched(backend, lambda i: (q, *case.in_rows), {"attn_mask": bias})
    contender.output = lambda out: out.unflatten(2, (group, case.problem.drafts)).flatten(1, 2)
    contender.facts = IN_ROWS
    return contender


def flex(whole, case: TreeCase):
    """whole: its usual kernel in place of the one that splits keys, which takes fewer than 128 queries."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    problem, first, lengths = case.problem, case.first, case.lengths_there
    group = problem.heads // problem.kv_heads
    if whole and (problem.drafts >= 128 or group & (group - 1)):
        raise NotTaken("the kernel that it has taken by itself")
    if whole and few_rows(problem):
        raise NotTaken("few drafts suit its kernel that splits keys")
    seen = torch.nn.functional.pad(case.seen, (0, 0, 0, TILE_ROOM))

    def allows(b, h, i, j):
        draft = j - first[b]
        return (draft < 0) | (seen[b, i, draft.clamp(0, problem.drafts - 1)] & (j < lengths[b]))

    keys = case.in_rows
    blocks = create_block_mask(allows, case.batch, None, problem.drafts, case.room, device=case.device)
    options = {"FORCE_USE_FLEX_ATTENTION": True} if whole else None

    def attend(q, k, v, blocks):
        return flex_attention(q, k, v, block_mask=blocks, enable_gqa=group > 1, kernel_options=options)

    compiled = torch.compile(code_of_its_own(attend), dynamic=False, fullgraph=True)
    return Contender(lambda i: compiled(case.padded_q, *keys, blocks), facts=IN_ROWS)


def flash4_pages(tile, case: TreeCase):
    """Asks its mask of every pair: lists of blocks it has for keys in rows alone. tile: None leaves the choice to the library."""
    if not case.problem.page:
        raise NotTaken("keys in rows")
    if tile and tile[1] != case.problem.page:
        raise NotTaken("pages are not as long as the keys of a tile")
    from flash_attn.cute.interface import _flash_attn_fwd
    from tree_mask_mod import draft_tree
    problem, k, v = case.problem, case.k.transpose(1, 2), case.v.transpose(1, 2)
    options = {"cu_seqlens_q": case.starts_there, "seqused_k": case.lengths_there, "page_table": case.table,
               "max_seqlen_q": problem.drafts, "max_seqlen_k": problem.longest.keys, "tile_mn": tile, "mask_mod": draft_tree,
               "aux_tensors": tree_tensors(case.first, case.words)}  # fmt: skip
    return Contender(lambda i: _flash_attn_fwd(case.q, k, v, **options)[0])


def lists_of(case: TreeCase, tile):
    """Counts and indices of partial and full blocks, [items, 1, row blocks] and with key blocks behind."""
    each = [block_lists(allowed, *tile) for allowed in case.allowed()]
    return [torch.cat(lists) for lists in zip(*each)]


def flash4_rows(tile, case: TreeCase):
    """Its mask is asked of the blocks that hold drafts; those before are whole ones of a list."""
    if case.problem.head_dim * tile[1] > MOST_TILE:
        raise NotTaken("a tile of keys of this head dimension is more than shared memory has room for")
    from flash_attn.cute.block_sparsity import BlockSparseTensorsTorch
    from flash_attn.cute.interface import _flash_attn_fwd
    from tree_mask_mod import draft_tree
    partial_count, partial, full_count, full = lists_of(case, tile)
    tensors = BlockSparseTensorsTorch(mask_block_cnt=partial_count, mask_block_idx=partial, full_block_cnt=full_count,
                                      full_block_idx=full, block_size=tile)  # fmt: skip
    q = case.q.unflatten(0, (case.batch, case.problem.drafts))
    k, v = (rows.transpose(1, 2) for rows in case.in_rows)
    options = {"tile_mn": tile, "mask_mod": draft_tree, "aux_tensors": tree_tensors(case.first, case.words), "block_sparse_tensors": tensors}
    return Contender(lambda i: _flash_attn_fwd(q, k, v, **options)[0], lambda out: out.transpose(1, 2), facts=IN_ROWS)


def flash4_for(provider, few: bool, tile, case: TreeCase):
    """few: of tiles of 64 rows."""
    if few_rows(case.problem) != few:
        raise NotTaken("tiles of other rows suit so many drafts")
    return provider(tile, case)


PAGE = 64  # of keys that lie in rows, for FlashInfer, which splits by pages


def flashinfer(case: TreeCase):
    """With every pair as a bit."""
    small_mask(case.problem.rows * case.room, 1)
    from flashinfer import BatchPrefillWithPagedKVCacheWrapper
    problem = case.problem
    (begins, pages), pools, page = flashinfer_pages(case)
    counts = begins[1:] - begins[:-1]
    workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=case.device)
    wrapper = BatchPrefillWithPagedKVCacheWrapper(workspace, "HND", backend="fa2")
    mask = torch.cat([case.allowed_of(number).flatten() for number in range(case.batch)])
    wrapper.plan(case.starts_there, begins, pages, case.lengths_there - (counts - 1) * page, problem.heads, problem.kv_heads,
                 problem.head_dim, page, custom_mask=mask, q_data_type=case.q.dtype)  # fmt: skip
    out = torch.full_like(case.q, math.nan)
    return Contender(lambda i: wrapper.run(case.q, pools, out=out), facts=None if problem.page else {"keys_lie": "in pages of 64"})


def flashinfer_pages(case: TreeCase):
    """Where the pages of each item begin in the list of all, and that list; k and v in pages; and how many keys one has."""
    if case.problem.page:
        return pages_listed(case), (case.k, case.v), case.problem.page
    pools = tuple(rows.unflatten(2, (-1, PAGE)).transpose(1, 2).flatten(0, 1).contiguous() for rows in (case.k, case.v))
    each = case.room // PAGE
    own = [-(-keys // PAGE) for keys in case.lengths]
    pages = torch.cat([torch.arange(number * each, number * each + count) for number, count in enumerate(own)])
    begins = torch.tensor([0, *own]).cumsum(0)
    return (begins.int().to(case.device), pages.int().to(case.device)), pools, PAGE


FEW_PAGES, FEW_ROWS = ((64, 64),), ((64, 64), (64, 128))
MORE_PAGES, MORE_ROWS = ((128, 64),), ((128, 64), (128, 128))

PROVIDERS = {
    "sdpa_cudnn": functools.partial(sdpa, "CUDNN_ATTENTION"),
    "sdpa_efficient": functools.partial(sdpa_stacked, "EFFICIENT_ATTENTION"),
    "flex": functools.partial(flex, False),
    "flex_whole": functools.partial(flex, True),
    "fa4_pages": functools.partial(flash4_pages, None),
    **by_tile("fa4_pages", functools.partial(flash4_for, flash4_pages, True), FEW_PAGES),
    **by_tile("fa4_pages", functools.partial(flash4_for, flash4_pages, False), MORE_PAGES),
    **by_tile("fa4_rows", functools.partial(flash4_for, flash4_rows, True), FEW_ROWS),
    **by_tile("fa4_rows", functools.partial(flash4_for, flash4_rows, False), MORE_ROWS),
    "flashinfer": flashinfer,
    **tree_parts.PROVIDERS,
}
