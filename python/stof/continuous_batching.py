# SPDX-License-Identifier: Apache-2.0
"""Attention over the paged cache of transformers' continuous batching (model.generate_batch), whose keys are read where they lie."""

from __future__ import annotations

import functools
import math
import weakref
from typing import Any

import torch

try:
    from transformers.generation.continuous_batching import ContinuousBatchingManager
except ImportError:  # an earlier version
    ContinuousBatchingManager = None

from stof.c_library import InvalidArgument, Unsupported
from stof.mask import Mask
from stof.model_keywords import refuse_others, refuse_uncomputed
from stof.packed_texts import of_the_batch
from stof.paged_steps import Given, Table, planned_sizes, recording
from stof.plans import Attention, planned
from stof.positions import shifted
from stof.recorded import outside_of_graphs, refuse_recording

_names: set[str] = set()  # of implementations that stay themselves
_DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}


def stay(name: str) -> None:
    """Has continuous batching take paged|NAME for a model at `name`. Where FlashAttention is installed, transformers would put that in its
    place, and with it leave out a mask of the user."""
    _names.add(name)
    before = getattr(ContinuousBatchingManager, "switch_to_cb_friendly_attn", None)
    if before is None or hasattr(before, "of_stof"):
        return

    @functools.wraps(before)
    def switch(manager: Any, model: Any) -> None:
        at = model.config._attn_implementation
        if at not in _names:
            before(manager, model)
            return
        model.set_attn_implementation(f"paged|{at}")
        manager._original_attn_impl = at

    switch.of_stof = True
    ContinuousBatchingManager.switch_to_cb_friendly_attn = switch


@outside_of_graphs  # what is compiled ends in front of it, and begins again behind it
def paged_attention_forward(module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
                            attention_mask: torch.Tensor | None = None, dropout: float = 0.0, scaling: float | None = None,
                            sliding_window: int | None = None, softcap: float | None = None, s_aux: torch.Tensor | None = None,
                            cache: Any = None, **given: Any) -> tuple[torch.Tensor, None]:  # fmt: skip
    """An attention function of transformers: query [1, H, N, D], of N tokens of all requests, new keys and values [1, Hkv, N, D], which
    are written into the cache, to [1, N, H, D]. Rows of padding behind the last request are 0."""
    refuse_recording(torch, "attention by stof")
    if cache is None:
        raise InvalidArgument(2, 'attention by paged|stof without a paged cache; accepted: model.generate_batch(...), and for other calls "stof"')
    of_step = Given.of(cache, module.layer_idx, given)
    refuse_uncomputed(module, dropout, given)
    refuse_others(given)
    if attention_mask is not None or getattr(module, "is_causal", True) is False:
        what = "an attention mask beside them" if attention_mask is not None else "attention that is not causal"
        raise Unsupported(3, f"requests of continuous batching with {what}; accepted: causal attention, sliding windows, and a mask of stof.transformers.use")
    if s_aux is not None and s_aux.numel() != query.shape[1]:
        raise InvalidArgument(2, f"sinks s_aux {list(s_aux.shape)} for {query.shape[1]} heads; accepted: one for each head")
    of_step.refuse_unlike(query, key, value)
    scaling = 1 / math.sqrt(query.shape[3]) if scaling is None else scaling
    narrower = key.shape[3] - value.shape[3]  # values have zeros beside them, which change nothing
    new = key, torch.nn.functional.pad(value, (0, narrower)) if narrower else value
    window = sliding_window or getattr(module, "sliding_window", None)
    mask = _mask(min(filter(None, (window, of_step.window)), default=None), getattr(module, "stof_mask", None), of_step.window is not None)
    out, lse = _Step(of_step, mask, softcap).run(query, new, scaling, s_aux is not None)
    out = out[..., : value.shape[3]] if narrower else out
    if s_aux is not None:  # a sink: one more term in the sum of weights, without a value
        out *= torch.sigmoid(lse - s_aux.reshape(-1, 1)).T.unsqueeze(-1).to(out.dtype)
    return out.unsqueeze(0), None


@functools.lru_cache(maxsize=64)
def _mask(window: int | None, users: Mask | None, drops_keys: bool) -> Mask:
    """The model's own and the user's, by positions of tokens. Of a window's cache these are other ones than those of the keys that it still has."""
    own = Mask(f"causal & window({window - 1})" if window else "causal")
    if users is None:
        return own
    if users.depends_on_length or of_the_batch(users):
        raise Unsupported(3, f"the mask {users} in continuous batching, where requests grow and come in any order; accepted: masks that are the same for "
                          "each number of keys and each item")  # fmt: skip
    if drops_keys and shifted(users, 1) != users:
        raise Unsupported(3, f"the mask {users} in continuous batching for layers with a sliding window, whose cache drops keys, and with them where they "
                          "stood; accepted there: causal, windows, strided, and what is made of them, or generate without continuous batching")  # fmt: skip
    return own & users


class _Step:
    """One layer of one step."""

    def __init__(self, given: Given, mask: Mask, softcap: float | None):
        self.given, self.mask, self.softcap = given, mask, softcap

    def run(self, query: torch.Tensor, new: tuple[torch.Tensor, torch.Tensor], scale: float, wants_lse: bool) -> tuple[torch.Tensor, torch.Tensor | None]:
        """[N, H, D], and [H, N]."""
        given, table = self.given, Table.of(self.given)
        heads, tokens = query.shape[1:3]
        requests, (queries, keys) = len(given.cu_q) - 1, given.longest
        each_decodes = given.block_table is not None or (queries == 1 and tokens == requests)
        if given.reads_nothing:
            given.write(table.slots, new)
            (k, v), at, keys = _rows(new), {"cu_q": given.cu_q, "cu_kv": given.cu_q}, queries
        elif table.pages is None:
            k, v = given.cache.update(*new, given.layer, given.read_index, given.write_index)
            at = {"cu_q": given.cu_q, "cu_kv": given.cu_k}
        else:
            given.write(table.slots, new)
            (k, v), keys = given.pages(), table.pages.shape[1] * given.page
            at = {"page_table": table.pages, "kv_lengths": table.lengths, **({} if each_decodes else {"cu_q": given.cu_q})}
        out = query.new_zeros(tokens, heads, query.shape[3])  # rows of padding are of no request
        lse = query.new_zeros(heads, tokens, dtype=torch.float32) if wants_lse else None
        rows, padded = query[0].transpose(0, 1), "cu_q" not in at
        plan = self._plan(query, k.shape[1], (requests, 1 if each_decodes else queries, keys))
        plan.run(rows.unsqueeze(2) if padded else rows, k, v, out=out.unsqueeze(2) if padded else out,
                 lse=lse if lse is None or not padded else lse.T.unsqueeze(2), scale=scale, softcap=self.softcap, **at)  # fmt: skip
        return out, lse

    def _plan(self, query: torch.Tensor, kv_heads: int, sizes: tuple[int, int, int]) -> Attention:
        dtype = _DTYPES.get(query.dtype, str(query.dtype))
        rounded = planned_sizes(*sizes, self.given.cache.max_batch_tokens)
        plan = planned(self.mask, heads=query.shape[1], kv_heads=kv_heads, head_dim=query.shape[3], dtype=dtype, device=str(query.device),
                       capped=self.softcap is not None, **rounded)  # fmt: skip
        for queries in {rounded["queries"], 1}:
            plan.prepare(queries, 1)
        if recording(query):  # a graph of the cache's steps has its work for as long as they are replayed
            _recorded.setdefault(self.given.cache, set()).add(plan)
        return plan


_recorded: weakref.WeakKeyDictionary[Any, set[Attention]] = weakref.WeakKeyDictionary()


def _rows(new: tuple[torch.Tensor, torch.Tensor]) -> list[torch.Tensor]:
    return [one[0].transpose(0, 1) for one in new]
