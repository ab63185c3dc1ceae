# SPDX-License-Identifier: Apache-2.0
"""The peers of decode attention on a GPU. Each takes a decode_case.Case and gives a Contender, or says why it has no path."""
from __future__ import annotations

import functools
import math

import torch
import torch.nn.functional as F
from decode_case import ALL, HEAD_DIM, KV_HEADS, SINK, WINDOW, Case
from providers import Contender, NotTaken, code_of_its_own


def sdpa(backend, case: Case):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    if case.page:
        raise NotTaken("no pages")
    if case.mask != ALL:
        raise NotTaken("a dense mask reads every key")
    chosen = getattr(SDPBackend, backend)

    def launch(i):
        with sdpa_kernel(chosen):
            return F.scaled_dot_product_attention(case.q, case.k, case.v, enable_gqa=True)

    return Contender(launch)


def flex(case: Case):
    """Its decoding kernel, which splits keys."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    if case.page:
        return flex_pages(case)
    first = case.keys - 1 - WINDOW
    block_mask = None
    if case.mask != ALL:
        block_mask = create_block_mask(lambda b, h, i, j: (j < SINK) | (j >= first), None, None, 1, case.keys)

    def attend(q, k, v, blocks):
        return flex_attention(q, k, v, block_mask=blocks, enable_gqa=True)

    compiled = torch.compile(code_of_its_own(attend), dynamic=False, fullgraph=True)
    return Contender(lambda i: compiled(case.q, case.k, case.v, block_mask))


def flex_pages(case: Case):
    """Pages as blocks of one long item, in a copy of the pool in the order that this needs."""
    from torch.nn.attention.flex_attention import BlockMask, flex_attention
    if case.mask != ALL:
        raise NotTaken("positions within pages would be its user's work")
    k, v = (pool.transpose(0, 1).reshape(1, KV_HEADS, -1, HEAD_DIM) for pool in (case.k, case.v))
    own = case.table.shape[1]
    pages, none = F.pad(case.table[:, None, None, :], (0, case.table.numel() - own)), torch.zeros_like(case.table[:, :1, None])
    blocks = BlockMask.from_kv_blocks(none, pages, none + own, pages, BLOCK_SIZE=(128, case.page),
                                      seq_lengths=(1, k.shape[2]), compute_q_blocks=False)  # fmt: skip
    options = {"BLOCK_N": case.page}

    def attend(q, k, v, blocks):
        return flex_attention(q, k, v, block_mask=blocks, enable_gqa=True, kernel_options=options)

    compiled = torch.compile(code_of_its_own(attend), dynamic=False, fullgraph=True)
    return Contender(lambda i: compiled(case.q, k, v, blocks))


def flash4(case: Case):
    """On sm_90 without a split of the keys."""
    from flash_attn.cute.interface import _flash_attn_fwd
    if case.mask != ALL:
        raise NotTaken("no window with a sink")
    q, k, v = (t.transpose(1, 2) for t in (case.q, case.k, case.v))
    options = {}
    if case.page:
        lengths = torch.full((case.batch,), case.keys, dtype=torch.int32, device="cuda")
        options = {"page_table": case.table, "seqused_k": lengths}
    return Contender(lambda i: _flash_attn_fwd(q, k, v, **options), lambda out: out[0].transpose(1, 2))


def cudnn_graph(case: Case):
    """cuDNN's own graph of attention, which takes keys in rows and in pages."""
    import cudnn
    if case.mask != ALL:
        raise NotTaken("no window with a sink")
    handle, kinds, out = cudnn.create_handle(), cudnn.data_type, torch.full_like(case.q, math.nan)
    graph = cudnn.pygraph(handle=handle, io_data_type=kinds.HALF, intermediate_data_type=kinds.FLOAT,
                          compute_data_type=kinds.FLOAT)  # fmt: skip
    given = {name: (graph.tensor_like(value), value) for name, value in inputs_of(case).items()}
    tensors = {name: made for name, (made, _) in given.items()}
    if case.page:
        tensors |= {"use_padding_mask": True, "paged_attention_max_seq_len_kv": case.keys}
    made, _ = graph.sdpa(name="decode", generate_stats=False, attn_scale=HEAD_DIM**-0.5, **tensors)
    made.set_output(True).set_dim(list(out.shape)).set_stride(list(out.stride()))
    graph.build([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    workspace = torch.empty(max(1, graph.get_workspace_size()), dtype=torch.uint8, device="cuda")
    pack = {made: out, **dict(given.values())}

    def launch(i):
        cudnn.set_stream(handle, torch.cuda.current_stream().cuda_stream)
        graph.execute(pack, workspace, handle=handle)
        return out

    return Contender(launch)


def inputs_of(case: Case) -> dict:
    """By the names that cuDNN's graph has for them."""
    found = {"q": case.q, "k": case.k, "v": case.v}
    if case.page:
        table = case.table.view(case.batch, 1, -1, 1)
        each = lambda value: torch.full((case.batch, 1, 1, 1), value, dtype=torch.int32, device="cuda")
        found |= {"seq_len_q": each(1), "seq_len_kv": each(case.keys), "paged_attention_k_table": table,
                  "paged_attention_v_table": table.clone()}  # fmt: skip
    return found


PROVIDERS = {
    "sdpa_cudnn": functools.partial(sdpa, "CUDNN_ATTENTION"),
    "sdpa_flash": functools.partial(sdpa, "FLASH_ATTENTION"),
    "flex": flex,
    "fa4": flash4,
    "cudnn_graph": cudnn_graph,
}
