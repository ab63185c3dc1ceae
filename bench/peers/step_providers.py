# SPDX-License-Identifier: Apache-2.0
"""The peers of steps of a server, on a GPU. Each takes a step_case.StepCase and gives a Contender, or says why it has no path."""
from __future__ import annotations

import functools
import math

import torch
import torch.nn.functional as F
from decode_providers import cudnn_launched
from providers import Contender, NotTaken
from step_case import StepCase

WORKSPACE_BYTES = 2**29  # of FlashInfer's parts of rows
MOST_PADDED_BYTES = 4e9  # of q and the output, each item as long as the longest


def flash4_call(case: StepCase, tile, pack=None, out=None):
    """A launch. tile: rows and keys, None leaves the choice to the library; of pages as long as the keys of a tile it copies whole
    ones. pack: rows of heads that share keys in one tile, as it does by itself where there are such."""
    from flash_attn.cute.interface import _flash_attn_fwd
    problem, k, v = case.problem, case.k.transpose(1, 2), case.v.transpose(1, 2)
    options = {"cu_seqlens_q": case.starts_there, "seqused_k": case.lengths_there, "page_table": case.table, "causal": True,
               "max_seqlen_q": problem.longest.queries, "max_seqlen_k": problem.longest.keys, "tile_mn": tile,
               "pack_gqa": pack, "out": out}  # fmt: skip
    if problem.window() is not None:
        options |= {"window_size_left": problem.window(), "window_size_right": 0}
    return lambda: _flash_attn_fwd(case.q, k, v, **options)[0]


def flash4(tile, case: StepCase):
    check_tile(tile, case)
    launch = flash4_call(case, tile)
    return Contender(lambda i: launch())


def flash4_unpacked(case: StepCase):
    if case.problem.heads == case.problem.kv_heads:
        raise NotTaken("no heads that share keys")
    launch = flash4_call(case, None, pack=False)
    return Contender(lambda i: launch())


def check_tile(tile, case: StepCase):
    if tile and tile[1] != case.problem.page:
        raise NotTaken("pages are not as long as the keys of a tile")


def flash4_two(tiles, case: StepCase):
    """tiles: of items that decode, and of chunks."""
    parts, out = case.parts(), torch.full_like(case.q, math.nan)
    if len(parts) < 2:
        raise NotTaken("items of one kind are one call")
    for tile in tiles:
        check_tile(tile, case)
    launches = [flash4_call(part, tile, out=out[rows]) for (part, rows), tile in zip(parts, tiles)]

    def launch(i):
        for one in launches:
            one()
        return out

    return Contender(launch)


def pages_listed(case: StepCase):
    """Where the pages of each item begin in the list of all, and that list."""
    begins = F.pad(torch.tensor(case.problem.pages, device=case.device).cumsum(0), (1, 0)).int()
    return begins, torch.cat([row[:own] for row, own in zip(case.table, case.problem.pages)])


def flashinfer(case: StepCase):
    from flashinfer import BatchPrefillWithPagedKVCacheWrapper
    problem, (begins, pages) = case.problem, pages_listed(case)
    rest = torch.tensor([item.keys - (own - 1) * problem.page for item, own in zip(problem.items, problem.pages)],
                        dtype=torch.int32, device=case.device)  # fmt: skip
    workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=case.device)
    wrapper = BatchPrefillWithPagedKVCacheWrapper(workspace, "HND", backend="fa2")
    left = -1 if problem.window() is None else problem.window()
    wrapper.plan(case.starts_there, begins, pages, rest, problem.heads, problem.kv_heads, problem.head_dim, problem.page,
                 causal=True, window_left=left, q_data_type=case.q.dtype)  # fmt: skip
    return Contender(lambda i: wrapper.run(case.q, (case.k, case.v)))


def flashinfer_batch(case: StepCase):
    """Its kernel for batches of both kinds."""
    from flashinfer import BatchAttention
    problem, (begins, pages) = case.problem, pages_listed(case)
    if problem.window() is not None:
        raise NotTaken("no window")
    wrapper = BatchAttention("HND", device=case.device)
    wrapper.plan(case.starts_there, begins, pages, case.lengths_there, problem.heads, problem.kv_heads, problem.head_dim,
                 problem.head_dim, problem.page, causal=True, q_data_type=case.q.dtype, kv_data_type=case.q.dtype)  # fmt: skip
    return Contender(lambda i: wrapper.run(case.q, (case.k, case.v)), lambda out: out[0])


def cudnn_inputs(case: StepCase) -> tuple[dict, dict]:
    """By the names that cuDNN's graph has for them, without q, and its options."""
    import cudnn
    problem = case.problem
    each = lambda values: torch.tensor(values, dtype=torch.int32, device=case.device).view(-1, 1, 1, 1)
    table = case.table.view(len(problem.items), 1, -1, 1)
    inputs = {"k": case.k, "v": case.v, "seq_len_q": each([item.queries for item in problem.items]),
              "seq_len_kv": each(case.lengths), "paged_attention_k_table": table, "paged_attention_v_table": table.clone()}  # fmt: skip
    options = {"use_padding_mask": True, "paged_attention_max_seq_len_kv": problem.longest.keys,
               "diagonal_alignment": cudnn.diagonal_alignment.BOTTOM_RIGHT, "diagonal_band_right_bound": 0}  # fmt: skip
    if problem.window() is not None:
        options["diagonal_band_left_bound"] = problem.window() + 1  # with the query's own position
    return inputs, options


def cudnn_graph(case: StepCase):
    """With queries padded to the longest, in a copy that is made before."""
    shape = (len(case.problem.items), case.problem.heads, case.problem.longest.queries, case.problem.head_dim)
    size = 2 * math.prod(shape) * case.q.element_size()
    if size > MOST_PADDED_BYTES:
        raise NotTaken("queries and outputs padded to the longest take more than 4 GB")
    inputs, options = cudnn_inputs(case)
    return cudnn_launched({"q": padded(case, shape), **inputs}, torch.full(shape, math.nan, dtype=case.q.dtype, device=case.device),
                          options)  # fmt: skip


def padded(case: StepCase, shape):
    q = torch.zeros(shape, dtype=case.q.dtype, device=case.device)
    for rows, own in zip(q, case.of_each(case.q)):
        rows[:, :own.shape[1]] = own
    return q


def cudnn_packed(case: StepCase):
    """With queries where they lie, by offsets."""
    inputs, options = cudnn_inputs(case)
    offsets = (case.starts_there.long() * case.q.stride(0)).view(-1, 1, 1, 1)
    if case.q.numel() < 2**31:
        offsets = offsets.int()
    return cudnn_launched({"q": case.q, **inputs}, torch.full_like(case.q, math.nan), options,
                          (offsets, case.problem.longest.queries))  # fmt: skip


PROVIDERS = {
    "fa4": functools.partial(flash4, None),
    "fa4_unpacked": flash4_unpacked,
    "fa4_128x64": functools.partial(flash4, (128, 64)),
    "fa4_two": functools.partial(flash4_two, (None, None)),
    "fa4_two_64x64": functools.partial(flash4_two, ((64, 64), (128, 64))),
    "flashinfer": flashinfer,
    "flashinfer_batch": flashinfer_batch,
    "cudnn_graph": cudnn_graph,
    "cudnn_packed": cudnn_packed,
}
