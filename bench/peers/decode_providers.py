# SPDX-License-Identifier: Apache-2.0
"""The peers of decode attention on a GPU. Each takes a decode_case.Case and gives a Contender, or says why it has no path."""
from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import providers
import torch
import torch.nn.functional as F
from decode_case import Case
from providers import Contender, NotTaken, code_of_its_own


@dataclass
class Band:
    """What libraries without masks of their own take: keys from `begin` on, causal from the end or not, so many keys to the
    left or all."""

    begin: int
    causal: bool
    left: int | None = None


def band_of(case: Case) -> Band:
    """Rows before the first key that is seen are left out by a view; pages cannot be."""
    run = case.run_of_keys()
    if run and not (case.page and run[0]):
        return Band(*run)
    if case.mask.window is None or case.mask.window[1] > 0:
        raise NotTaken("neither all keys, nor causal, nor a window")
    return Band(0, case.queries > 1, case.mask.window[0])


def keys_of(case: Case, band: Band):
    """k and v [items or pages, kv_heads, keys, d]"""
    return tuple(pool[:, :, band.begin:] for pool in (case.k, case.v))


def sdpa(backend, case: Case):
    from torch.nn.attention.bias import causal_lower_right
    if case.page:
        raise NotTaken("no pages")
    band = band_of(case)
    if band.left is not None:
        raise NotTaken("no window of several queries")
    if band.causal and backend != "FLASH_ATTENTION":
        raise NotTaken("causal from the first key alone, not from the last")
    k, v = keys_of(case, band)
    bias = {"attn_mask": causal_lower_right(case.queries, k.shape[2])} if band.causal else {}
    return providers.sdpa_launched(backend, lambda i: (case.q, k, v), {**bias, "enable_gqa": True})


def flex(case: Case):
    """Its decoding kernel, which splits keys, where the heads of a key head are a power of two."""
    if case.page:
        return flex_pages(case)
    if case.run_of_keys() != (0, False):
        return providers.flex(128, case, case.mask, case.dense)
    return flex_launched(case, (case.k, case.v), None, None)


def flex_pages(case: Case):
    """Pages as blocks of one long item, in a copy of the pool in the order that this needs. Of an item's last page the keys
    that are not the item's are masked."""
    from torch.nn.attention.flex_attention import BlockMask
    if case.run_of_keys() != (0, False):
        raise NotTaken("positions within pages would be its user's work")
    if case.queries > 128:
        raise NotTaken("lists of pages for more than one block of queries would be its user's work")
    pools = tuple(pool.transpose(0, 1).reshape(1, case.kv_heads, -1, case.head_dim) for pool in (case.k, case.v))
    rest, own = case.keys % case.page, case.table.shape[1]
    whole = own - 1 if rest else own
    listed = lambda pages: F.pad(pages[:, None, None, :], (0, case.table.numel() - pages.shape[1])).contiguous()
    counts = lambda count: torch.full_like(case.table[:, :1, None], count)
    blocks = BlockMask.from_kv_blocks(counts(own - whole), listed(case.table[:, whole:] if rest else case.table), counts(whole),
                                      listed(case.table[:, :whole]), BLOCK_SIZE=(128, case.page),
                                      mask_mod=(lambda b, h, i, j: j % case.page < rest) if rest else None,
                                      seq_lengths=(case.queries, pools[0].shape[2]), compute_q_blocks=False)  # fmt: skip
    return flex_launched(case, pools, blocks, {"BLOCK_N": case.page})


def flex_launched(case: Case, keys, blocks, options):
    from torch.nn.attention.flex_attention import flex_attention

    def attend(q, k, v, blocks):
        return flex_attention(q, k, v, block_mask=blocks, enable_gqa=True, kernel_options=options)

    compiled = torch.compile(code_of_its_own(attend), dynamic=False, fullgraph=True)
    return Contender(lambda i: compiled(case.q, *keys, blocks))


def flash4(tile, case: Case):
    """On sm_90 without a split of the keys. tile: rows and keys; None leaves the choice to the library."""
    from flash_attn.cute.interface import _flash_attn_fwd
    band = band_of(case)
    q, k, v = (t.transpose(1, 2) for t in (case.q, *keys_of(case, band)))
    options = {"causal": band.causal, "tile_mn": tile}
    if band.left is not None:
        options |= {"window_size_left": band.left, "window_size_right": 0}
    if case.page:
        lengths = torch.full((case.batch,), case.keys, dtype=torch.int32, device="cuda")
        options |= {"page_table": case.table, "seqused_k": lengths}
    return Contender(lambda i: _flash_attn_fwd(q, k, v, **options), lambda out: out[0].transpose(1, 2))


def flash4_mask(tile, case: Case):
    return of_any_mask(functools.partial(providers.flash4_mask, tile), case)


def of_any_mask(provider, case: Case):
    """A provider of attention.py for masks that a library has not itself."""
    if case.page:
        raise NotTaken("no pages under a mask of its user's")
    try:
        band_of(case)
    except NotTaken:
        return provider(case, case.mask, case.dense)
    raise NotTaken("the library has this mask itself")


def cudnn_graph(case: Case):
    """cuDNN's own graph of attention, which takes keys in rows and in pages."""
    import cudnn
    band = band_of(case)
    options = {}
    if case.page:
        options |= {"use_padding_mask": True, "paged_attention_max_seq_len_kv": case.keys}
    if band.causal or band.left is not None:
        options |= {"diagonal_alignment": cudnn.diagonal_alignment.BOTTOM_RIGHT, "diagonal_band_right_bound": 0}
    if band.left is not None:
        options["diagonal_band_left_bound"] = band.left + 1  # with the query's own position
    return cudnn_launched(inputs_of(case, band), torch.full_like(case.q, math.nan), options)


def cudnn_launched(inputs: dict, out, options: dict, packed=None):
    """inputs: by the names that cuDNN's graph has for them. packed: of q and out [rows, heads, d] the element that each item begins
    with, [items + 1, 1, 1, 1], and the most rows of one."""
    import cudnn
    kinds, q = cudnn.data_type, inputs["q"]
    handle = cudnn.create_handle()
    kind = kinds.HALF if q.dtype == torch.float16 else kinds.BFLOAT16
    graph = cudnn.pygraph(handle=handle, io_data_type=kind, intermediate_data_type=kinds.FLOAT,
                          compute_data_type=kinds.FLOAT)  # fmt: skip
    dims, strides, begins = list(out.shape), list(out.stride()), {}
    if packed:
        offsets, most = packed
        dims = [offsets.shape[0] - 1, q.shape[1], most, q.shape[2]]
        strides = [most * q.stride(0), q.stride(1), q.stride(0), 1]
        begins = {name: graph.tensor_like(offsets) for name in ("q", "out")}
    given = {name: graph.tensor(dim=dims, stride=strides, data_type=kind, ragged_offset=begins[name]) if name in begins
             else graph.tensor_like(value) for name, value in inputs.items()}  # fmt: skip
    made, _ = graph.sdpa(name="attention", generate_stats=False, attn_scale=q.shape[-1]**-0.5, **given, **options)
    made.set_output(True).set_dim(dims).set_stride(strides)
    if packed:
        made.set_ragged_offset(begins["out"])
    graph.build([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    workspace = torch.empty(max(1, graph.get_workspace_size()), dtype=torch.uint8, device="cuda")
    pack = {made: out, **{given[name]: value for name, value in inputs.items()}, **{begin: packed[0] for begin in begins.values()}}

    def launch(i):
        cudnn.set_stream(handle, torch.cuda.current_stream().cuda_stream)
        graph.execute(pack, workspace, handle=handle)
        return out

    return Contender(launch)


def inputs_of(case: Case, band: Band) -> dict:
    """By the names that cuDNN's graph has for them."""
    found = dict(zip("qkv", (case.q, *keys_of(case, band))))
    if case.page:
        table = case.table.view(case.batch, 1, -1, 1)
        each = lambda value: torch.full((case.batch, 1, 1, 1), value, dtype=torch.int32, device="cuda")
        found |= {"seq_len_q": each(case.queries), "seq_len_kv": each(case.keys), "paged_attention_k_table": table,
                  "paged_attention_v_table": table.clone()}  # fmt: skip
    return found


TILES = ((64, 64), (64, 128))  # beside the one that the library takes: fewer rows, as few queries have
MASK_TILES = ((128, 64), (128, 128))  # for more queries than a tile of 64 rows has room for


def providers_of(queries: int) -> dict:
    """By name, with the tiles that so many queries of an item may want."""
    few = queries <= 64
    return {
        "sdpa_cudnn": functools.partial(sdpa, "CUDNN_ATTENTION"),
        "sdpa_flash": functools.partial(sdpa, "FLASH_ATTENTION"),
        "flex": flex,
        "fa4": functools.partial(flash4, None),
        **providers.by_tile("fa4", flash4, TILES if few else ()),
        **providers.by_tile("fa4_mask", flash4_mask, TILES if few else MASK_TILES),
        "cudnn_flex": functools.partial(of_any_mask, providers.cudnn_flex),
        "cudnn_graph": cudnn_graph,
    }
