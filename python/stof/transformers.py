# SPDX-License-Identifier: Apache-2.0
"""STOF as an attention implementation of Hugging Face transformers, under the masks that its models make."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers

from stof.c_library import InvalidArgument, Unsupported
from stof.continuous_batching import paged_attention_forward, stay
from stof.mask import Mask, mask_of
from stof.model_keywords import refuse_others, refuse_uncomputed
from stof.model_masks import Kept, ModelMask, Padded, made_mask, of_given
from stof.plans import Attention, planned_for_more
from stof.recorded import outside_of_graphs, refuse_recording

_WIDEST = 256  # heads


def register(name: str = "stof") -> None:
    """Makes `name` an attention implementation: model.set_attn_implementation("stof"), or
    from_pretrained(..., attn_implementation="stof"). For inference: there is no backward pass. And "paged|stof", which is for
    continuous batching alone: model.generate_batch takes it by itself for a model at "stof"."""
    transformers.AttentionInterface.register(name, attention_forward)
    transformers.AttentionMaskInterface.register(name, made_mask)
    transformers.AttentionInterface.register(f"paged|{name}", paged_attention_forward)  # without masks: models make none
    stay(name)


def use(model: transformers.PreTrainedModel, mask: Mask | str | Callable[..., Any] | None = None) -> None:
    """Has a model's attention computed by STOF, and under `mask` besides the model's own where there is one: a pair is
    allowed where both allow it. None takes an earlier one away. `mask` is refused where one would have to do for several kinds of
    attention, in encoder-decoders and models with cross-attention; models of which a part computes attention by itself are
    refused. What is refused leaves the model as it was. A copy of the model has its mask, too. Of a SentenceTransformer it is its
    transformers_model. model.set_attn_implementation with another name afterwards leaves STOF, and so the mask; with "stof" both are back."""
    model = getattr(model, "_orig_mod", model)  # of one that torch.compile has wrapped
    model = getattr(model, "transformers_model", model)
    model = model.get_base_model() if hasattr(model, "get_base_model") else model  # of one with adapters (PEFT)
    if not isinstance(model, transformers.PreTrainedModel):
        raise InvalidArgument(2, f"a model of type {type(model).__name__}; accepted: a transformers.PreTrainedModel")
    users = None if mask is None else mask_of(mask)
    if users is not None:
        _refuse_cross_attention(model)
    _set_implementation(model)
    for module in model.modules():
        if users is None:
            vars(module).pop("stof_mask", None)
        else:
            module.stof_mask = users


def _refuse_cross_attention(model: transformers.PreTrainedModel) -> None:
    for module in model.modules():
        config = getattr(module, "config", None)
        for what, name in (("is_encoder_decoder", "an encoder-decoder"), ("add_cross_attention", "which has cross-attention")):
            if getattr(config, what, False):
                raise Unsupported(3, f"a mask for {type(module).__name__}, {name}; accepted: None, or another model")


def _set_implementation(model: transformers.PreTrainedModel) -> None:
    """All of it or, with an exception, nothing."""
    register()
    parts = {name or "itself": part for name, part in model.named_modules() if isinstance(part, transformers.PreTrainedModel)}
    configs = [part.config for part in parts.values()]
    configs += [sub for config in configs for name in config.sub_configs if (sub := getattr(config, name, None)) is not None]
    earlier = [(config, config._attn_implementation_internal) for config in configs]
    try:
        model.set_attn_implementation("stof")
        for name, part in parts.items():
            if part.config._attn_implementation != "stof":
                raise Unsupported(3, f"{type(model).__name__}, of which {type(part).__name__} ({name}) stays at {part.config._attn_implementation!r}; "
                                  "accepted: models all of whose parts take an attention implementation")  # fmt: skip
    except BaseException:
        for config, implementation in earlier:
            config._attn_implementation_internal = implementation
        raise


@outside_of_graphs  # what is compiled ends in front of it, and begins again behind it
def attention_forward(module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
                      attention_mask: torch.Tensor | None, dropout: float = 0.0, scaling: float | None = None,
                      sliding_window: int | None = None, softcap: float | None = None, is_causal: bool | None = None,
                      s_aux: torch.Tensor | None = None, **given: Any) -> tuple[torch.Tensor, None]:  # fmt: skip
    """An attention function of transformers: query [B, H, N, D], key and value [B, Hkv, M, D] to [B, N, H, D]."""
    refuse_recording(torch, "attention by stof")
    refuse_uncomputed(module, dropout, given)
    refuse_others(given)
    if s_aux is not None and s_aux.numel() != query.shape[1]:
        raise InvalidArgument(2, f"sinks s_aux {list(s_aux.shape)} for {query.shape[1]} heads; accepted: one for each head")
    of_model = of_given(attention_mask, sliding_window, _is_causal(module, query) if is_causal is None else is_causal,
                        (*query.shape[:3], key.shape[2]))  # fmt: skip
    call = _Call(query, key[:, :, : of_model.held], value[:, :, : of_model.held], scaling, softcap, s_aux is not None)
    out, lse = _under(getattr(module, "stof_mask", None), of_model, call)
    out = out[..., : value.shape[3]]
    if s_aux is not None:  # a sink: one more term in the sum of weights, without a value
        out *= torch.sigmoid(lse - s_aux.reshape(1, -1, 1)).transpose(1, 2).unsqueeze(-1).to(out.dtype)
    return out, None


def _is_causal(module: torch.nn.Module, query: torch.Tensor) -> bool:
    """Of attention without a mask. What a module does not say is taken as sdpa_attention_forward of transformers takes it."""
    return getattr(module, "is_causal", query.shape[2] > 1)


def _under(users: Mask | None, of_model: ModelMask, call: _Call) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Of a model's mask, and a user's where there is one."""
    items, _, queries, _ = call.q.shape
    if users is None:
        return call.padded(of_model.padded(queries))
    if not of_model.placed or (of_model.of_keys_alone and queries != call.k.shape[2]):
        raise Unsupported(3, f"a user's mask for attention of {queries} queries to {call.k.shape[2]} keys of which they are not the last, as in "
                          "cross-attention; accepted: None, or another model")  # fmt: skip
    joined, kept = of_model.beside(users, items, queries)
    return call.padded(Padded(joined)) if kept is None else call.packed(joined, kept)


@dataclass
class _Call:
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    scale: float | None
    softcap: float | None
    wants_lse: bool

    def __post_init__(self) -> None:
        """Where values are wider or narrower than keys, the narrower has zeros beside it, which change nothing."""
        of_keys, of_values = self.q.shape[3], self.v.shape[3]
        if max(of_keys, of_values) > _WIDEST:
            raise Unsupported(3, f"heads of {of_keys}, values of {of_values}; accepted: up to {_WIDEST}, or another attn_implementation")
        if of_keys != of_values:
            self.scale = 1 / math.sqrt(of_keys) if self.scale is None else self.scale
            width = max(of_keys, of_values)
            self.q, self.k, self.v = (torch.nn.functional.pad(one, (0, width - one.shape[3])) for one in (self.q, self.k, self.v))

    def padded(self, by: Padded) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Rows behind an item's length are 0."""
        batch, heads, queries, dim = self.q.shape
        plan = self._plan(by.mask)
        for of_item in set(zip(by.q_lengths or [queries] * batch, by.kv_lengths or [])):
            plan.prepare(*of_item)
        new = self.q.new_empty if by.q_lengths is None else self.q.new_zeros
        out = new(batch, queries, heads, dim)
        lse = new(batch, heads, queries, dtype=torch.float32) if self.wants_lse else None
        plan.run(self.q, self.k, self.v, out=out.transpose(1, 2), lse=lse, scale=self.scale, softcap=self.softcap,
                 q_lengths=by.q_lengths, kv_lengths=by.kv_lengths)  # fmt: skip
        return out, lse

    def packed(self, mask: Mask, kept: Kept) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Of what is no padding, one after the other; the other rows are 0."""
        batch, heads, queries, dim = self.q.shape
        packed = lambda tensor, rows: tensor.transpose(1, 2).flatten(0, 1)[rows]  # noqa: E731
        plan = self._plan(mask) if kept.longest is None else self._plan(mask, (len(kept.lengths), kept.longest, kept.longest))
        for of_item in set(kept.lengths):
            plan.prepare(*of_item)
        lse = self.q.new_empty(heads, len(kept.rows), dtype=torch.float32) if self.wants_lse else None
        made = plan.run(packed(self.q, kept.rows), packed(self.k, kept.keys), packed(self.v, kept.keys), lse=lse,
                        scale=self.scale, softcap=self.softcap, cu_q=kept.offsets[0], cu_kv=kept.offsets[1])  # fmt: skip
        out = self.q.new_zeros(batch * queries, heads, dim)
        out[kept.rows] = made
        if lse is None:
            return out.view(batch, queries, heads, dim), None
        padded = lse.new_zeros(heads, batch * queries)
        padded[:, kept.rows] = lse
        return out.view(batch, queries, heads, dim), padded.view(heads, batch, queries).transpose(0, 1)

    def _plan(self, mask: Mask, sizes: tuple[int, int, int] | None = None) -> Attention:
        """`sizes`: items, queries and keys, where these are not those of the tensors."""
        _, heads, _, dim = self.q.shape
        batch, queries, keys = sizes or (self.q.shape[0], self.q.shape[2], self.k.shape[2])
        dtype = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}.get(self.q.dtype, str(self.q.dtype))
        return planned_for_more(mask, batch=max(batch, 1), heads=heads, kv_heads=self.k.shape[1], queries=queries, keys=keys,
                                head_dim=dim, dtype=dtype, device=str(self.q.device), capped=self.softcap is not None)  # fmt: skip
