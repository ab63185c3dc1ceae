# SPDX-License-Identifier: Apache-2.0
"""The peers on a GPU. Each takes (sets, mask, dense [queries, S], [H, queries, S] or [B, 1, queries, S]) and gives a Contender.
NotTaken says why a peer has no path for a mask."""
from __future__ import annotations

import functools
import hashlib
import importlib.util
import itertools
import re
import tempfile
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import torch
import torch.nn.functional as F


class NotTaken(Exception):
    """The peer does not take this mask or shape."""


@dataclass
class Contender:
    launch: Callable                      # of the set i: launches only, and gives what the peer returns
    output: Callable = lambda out: out    # of that: [B, H, S, D]
    facts: dict | None = None             # more about it, for the results
    adds: Callable = lambda bias: bias    # what it adds to scores of a case's bias, as it has that; or None: nothing


_NUMBERS = itertools.count()


def code_of_its_own(function):
    """The function, with a code object that no other has: Dynamo keeps what it compiled by code, and refuses past eight."""
    code = function.__code__.replace(co_name=f"{function.__name__}_{next(_NUMBERS)}")
    return types.FunctionType(code, function.__globals__, code.co_name, function.__defaults__, function.__closure__)


def flex(block, sets, mask, dense, score_mod=None):
    """score_mod: None is that of the sets' softcap, if they have one."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    heads, lengths, first = sets.shape[1], (sets.shape[2], sets.keys), sets.first_position
    if mask.by_item:
        block_mask = create_block_mask(lambda b, h, i, j: mask.by_item(b, i + first, j), mask.items, None, *lengths, BLOCK_SIZE=block)
    elif mask.by_head:
        block_mask = create_block_mask(lambda b, h, i, j: mask.by_head(h, i + first, j), None, heads, *lengths, BLOCK_SIZE=block)
    else:
        block_mask = create_block_mask(lambda b, h, i, j: mask.allows(i + first, j), None, None, *lengths, BLOCK_SIZE=block)
    options = {"BLOCK_M": block, "BLOCK_N": block} if block < 128 else None
    cap = sets.softcap
    if cap is not None and score_mod is None:
        score_mod = lambda score, b, h, i, j: cap * torch.tanh(score / cap)
    grouped = sets.grouped

    def attend(q, k, v, blocks):
        return flex_attention(q, k, v, score_mod=score_mod, block_mask=blocks, enable_gqa=grouped, kernel_options=options)

    compiled = torch.compile(code_of_its_own(attend), dynamic=False, fullgraph=True)
    return Contender(lambda i: compiled(*sets[i], block_mask))


def sdpa(backend, sets, mask, dense):
    from torch.nn.attention.bias import causal_lower_right
    length = sets.keys
    if mask.causal and sets.first_position == 0:
        arguments = {"is_causal": True}
    elif mask.causal and backend == "FLASH_ATTENTION":
        arguments = {"attn_mask": causal_lower_right(sets.shape[2], sets.keys)}
    elif backend == "FLASH_ATTENTION" or length > 1024:
        raise NotTaken("no mask argument" if length <= 1024 else "a dense mask of this length is no contender")
    else:
        arguments = {"attn_mask": dense[(None,) * (4 - dense.dim())]}
    if sets.grouped:
        arguments["enable_gqa"] = True
    return sdpa_launched(backend, sets.__getitem__, arguments)


def sdpa_launched(backend, tensors_of, arguments):
    """tensors_of(i): q, k and v of the set i."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    chosen = getattr(SDPBackend, backend)

    def launch(i):
        with sdpa_kernel(chosen):
            return F.scaled_dot_product_attention(*tensors_of(i), **arguments)

    return Contender(launch)


def flash4_native(tile, sets, mask, dense):
    """tile: rows and keys; None leaves the choice to the library."""
    from flash_attn.cute.interface import _flash_attn_fwd
    if mask.causal:
        options = {"causal": True}
    elif mask.window:
        options = {"window_size_left": mask.window[0], "window_size_right": mask.window[1]}
    else:
        raise NotTaken("neither causal nor a window")
    return Contender(lambda i: _flash_attn_fwd(*sets.bshd(i), **options, tile_mn=tile), lambda out: out[0].transpose(1, 2))


def varlen_lists(documents, length, device="cuda"):
    """documents: of each item of `length` rows (begin, end, keys). Where all begin in the rows of the batch, and of how many rows
    and keys of each they are, where these are not all up to the next."""
    int32s = functools.partial(torch.tensor, dtype=torch.int32, device=device)
    flat = [(b * length + begin, end - begin, keys) for b, item in enumerate(documents) for begin, end, keys in item]
    starts = int32s([begin for begin, _, _ in flat] + [len(documents) * length])
    rooms, rows, keys = starts.diff(), int32s([rows for _, rows, _ in flat]), int32s([keys for _, _, keys in flat])
    lists = {"cu_seqlens_q": starts, "cu_seqlens_k": starts, "max_seqlen_q": int(rows.max()), "max_seqlen_k": int(keys.max())}
    used = {"seqused_q": rows, "seqused_k": keys}
    return lists | {name: counts for name, counts in used.items() if not torch.equal(counts, rooms)}


def flash4_varlen(tile, sets, mask, dense):
    from flash_attn.cute.interface import _flash_attn_fwd
    if not (mask.document_starts or mask.item_documents) or sets.first_position != 0:
        raise NotTaken("no documents, whole ones")
    batch, heads, length, dim = sets.shape
    documents = mask.item_documents
    if not documents:
        ends = [*mask.document_starts[1:], length]
        documents = [[(begin, end, end - begin) for begin, end in zip(mask.document_starts, ends)]] * batch
    left, right = mask.document_window
    sight = {"causal": True} if (left, right) == (None, 0) else {"window_size_left": left, "window_size_right": right}
    options = {**varlen_lists(documents, length), "tile_mn": tile, **sight}
    unread = ~dense.any(-1, keepdim=True)  # rows of no document are not written; the check wants zeros there
    some = bool(unread.any())

    def output(out):
        found = out[0].reshape(batch, length, heads, dim).transpose(1, 2)
        return found.masked_fill(unread, 0) if some else found

    return Contender(lambda i: _flash_attn_fwd(*(t.flatten(0, 1) for t in sets.bshd(i)), **options), output,
                     facts={"unwritten_rows": unread.float().mean().item()} if some else None)


@functools.cache
def _mask_mod(source, first):
    """CuTe compiles from source files, so the expression is written to a module of its own. first: position of row 0."""
    body = re.sub(r"load\(((?:[^()]|\[[^\]]*\])*)\)", r"utils.scalar_to_ssa(\1, cutlass.Int32)", source)
    text = ("import cutlass\nimport cutlass.cute as cute\nfrom flash_attn.cute import utils\n\n\n"
            "@cute.jit\ndef mask_mod(batch, head, q, k, seqlen_info, aux):\n"
            + (f"    q = q + {first}\n" if first else "") + f"    return {body}\n")
    path = Path(tempfile.mkdtemp()) / f"mask_{hashlib.sha256(text.encode()).hexdigest()[:12]}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.mask_mod


def block_lists(dense, tile_m, tile_n):
    """Counts and ascending indices of partial and full tiles, [1, 1, rows] and [1, 1, rows, columns], or of each item where
    dense is [B, 1, queries, keys]. Full are those in which all rows that there are see all keys."""
    dense = dense[(None,) * (4 - dense.dim())]
    *outer, queries, keys = dense.shape
    rows, columns = -(-queries // tile_m), -(-keys // tile_n)
    padded = torch.zeros(*outer, rows * tile_m, columns * tile_n, dtype=torch.bool, device=dense.device)
    padded[..., :queries, :keys] = dense
    sums = padded.view(*outer, rows, tile_m, columns, tile_n).sum((-3, -1), dtype=torch.int32)
    begins = torch.arange(0, queries, tile_m, device=dense.device)[:, None]
    full = sums == tile_n * (queries - begins).clamp(max=tile_m)
    lists = []
    for chosen in ((sums > 0) & ~full, full):
        order = torch.argsort((~chosen).to(torch.int8), dim=-1, stable=True).to(torch.int32)
        lists += [chosen.sum(-1, dtype=torch.int32).contiguous(), order.contiguous()]
    return lists


def flash4_mask(tile, sets, mask, dense):
    from flash_attn.cute.block_sparsity import BlockSparseTensorsTorch
    from flash_attn.cute.interface import _flash_attn_fwd
    if mask.cute_source is None:
        raise NotTaken("no CuTe form of this mask")
    partial_count, partial, full_count, full = block_lists(dense, *tile)
    tensors = BlockSparseTensorsTorch(mask_block_cnt=partial_count, mask_block_idx=partial, full_block_cnt=full_count,
                                      full_block_idx=full, block_size=tile)
    options = {"mask_mod": _mask_mod(mask.cute_source, sets.first_position), "block_sparse_tensors": tensors, "tile_mn": tile,
               "aux_tensors": mask.tensors or None}
    if sets.grouped:  # lists are of rows of one head
        options["pack_gqa"] = False
    return Contender(lambda i: _flash_attn_fwd(*sets.bshd(i), **options), lambda out: out[0].transpose(1, 2))


def _intervals(dense, most=33):
    """Row intervals as [1, nfunc, queries]: [0, F0) with F0 = 0, then [F1, F2), ...; empty ones are padded with S."""
    if dense.dim() == 3:
        raise NotTaken("the mask differs by head")
    queries, length = dense.shape
    edges = torch.diff(F.pad(dense.to(torch.int8), (1, 1)), dim=1)
    begins, ends = (edges == 1), (edges == -1)
    count = int(begins.sum(1).max())
    if 2 * count + 1 > most:
        raise NotTaken(f"{count} intervals in a row")
    table = torch.full((2 * count + 1, queries), length, dtype=torch.int32, device=dense.device)
    table[0] = 0
    for offset, flags in ((1, begins), (2, ends)):
        rows, columns = flags.nonzero(as_tuple=True)
        nth = flags.cumsum(1)[rows, columns] - 1
        table[2 * nth + offset, rows] = columns.to(torch.int32)
    return table[None].contiguous()


def intervals_of_items(dense, batch):
    """[1, nfunc, items x queries]."""
    if dense.dim() != 4:
        return _intervals(dense).repeat(1, 1, batch)
    tables = [_intervals(item) for item in dense[:, 0]]
    most = max(table.shape[1] for table in tables)
    return torch.cat([F.pad(table, (0, 0, 0, most - table.shape[1]), value=dense.shape[-1]) for table in tables], 2).contiguous()


def cudnn_flex(sets, mask, dense):
    from cudnn.flex_attention import create_mask_plan, flex_attn_func
    plan = create_mask_plan(intervals_of_items(dense, sets.shape[0]), *sets.bshd(0))
    return Contender(lambda i: flex_attn_func(*sets.bshd(i), mask_plan=plan), lambda out: out.transpose(1, 2))


def cudnn_flex_residue(sets, mask, dense):
    """dilated(n, d) as d plain windows over strided views of the tokens: what an expert would do by hand."""
    if not mask.text.startswith("dilated(") or sets.first_position != 0:
        raise NotTaken("not dilated, or not of whole texts")
    from cudnn.flex_attention import create_mask_plan, flex_attn_func
    steps, step = map(int, mask.text[8:-1].split(","))
    batch, heads, length, dim = sets.shape
    if length % step:
        raise NotTaken(f"S is not a multiple of {step}")
    part = length // step

    def by_class(i):
        return sets.in_order(i, "classes", lambda t: t.transpose(1, 2).reshape(batch, part, step, t.shape[1], dim)
                             .transpose(1, 2).reshape(batch * step, part, t.shape[1], dim).contiguous())

    index = torch.arange(part, device="cuda")
    intervals = _intervals((index[:, None] - index[None, :]).abs() <= steps)
    plan = create_mask_plan(intervals.repeat(1, 1, batch * step), *by_class(0))
    return Contender(lambda i: flex_attn_func(*by_class(i), mask_plan=plan),
                     lambda out: out.view(batch, step, part, heads, dim).transpose(1, 2)
                     .reshape(batch, length, heads, dim).transpose(1, 2))


def cudnn_blocks(sets, mask, dense):
    from cudnn.block_sparse_attention import block_sparse_attention_forward
    batch, heads, length, _ = sets.shape
    if mask.block != 64 or length % 64 or sets.first_position:
        raise NotTaken("not made of 64 x 64 blocks")
    counts = mask.table.sum(-1, dtype=torch.int32)  # of a table for each head, too
    order = torch.argsort((~mask.table).to(torch.int8), dim=-1, stable=True)[..., :int(counts.max())].to(torch.int32)
    index = order.expand(batch, heads, -1, -1).contiguous()
    numbers = counts.expand(batch, heads, -1).contiguous()
    return Contender(lambda i: block_sparse_attention_forward(*sets[i], index, q2k_block_nums=numbers,
                                                              sparse_block_size=64, kv_splits="auto"),
                     lambda out: out["o_tensor"])


FLASH4_TILES = ((64, 64), (64, 128), (128, 32), (128, 64), (128, 128), (192, 64), (192, 128))
NATIVE_TILES = ((64, 64), (64, 128), (128, 64), (128, 128))  # beside the one that the library takes
VARLEN_TILES = ((64, 128), (128, 64), (128, 128))


def by_tile(name, provider, tiles):
    return {f"{name}_{m}x{n}": functools.partial(provider, (m, n)) for m, n in tiles}


PROVIDERS = {
    "flex128": functools.partial(flex, 128),
    "flex64": functools.partial(flex, 64),
    "sdpa_cudnn": functools.partial(sdpa, "CUDNN_ATTENTION"),
    "sdpa_flash": functools.partial(sdpa, "FLASH_ATTENTION"),
    "fa4_native": functools.partial(flash4_native, None),
    **by_tile("fa4_native", flash4_native, NATIVE_TILES),
    "fa4_varlen": functools.partial(flash4_varlen, None),
    **by_tile("fa4_varlen", flash4_varlen, VARLEN_TILES),
    **by_tile("fa4_mask", flash4_mask, FLASH4_TILES),
    "cudnn_flex": cudnn_flex,
    "cudnn_flex_residue": cudnn_flex_residue,
    "cudnn_blocks": cudnn_blocks,
}
