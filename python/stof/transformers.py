# SPDX-License-Identifier: Apache-2.0
"""STOF as an attention implementation of Hugging Face transformers, under the masks that its models make."""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from transformers import masking_utils

from stof.plans import Attention, planned_for_more
from stof.c_library import InvalidArgument, Unsupported
from stof.mask import Mask, mask_of

_user_masks: weakref.WeakKeyDictionary[torch.nn.Module, Mask] = weakref.WeakKeyDictionary()


def register(name: str = "stof") -> None:
    """Makes `name` an attention implementation: model.set_attn_implementation("stof"), or
    from_pretrained(..., attn_implementation="stof"). For inference: there is no backward pass."""
    transformers.AttentionInterface.register(name, attention_forward)
    transformers.AttentionMaskInterface.register(name, made_mask)


def use(model: transformers.PreTrainedModel, mask: Mask | str | None = None) -> None:
    """Has a model's attention computed by STOF, and under `mask` besides the model's own where there is one: a pair is
    allowed where both allow it. None takes an earlier one away. Of encoder-decoders, where one mask would have to do
    for three kinds of attention, `mask` is refused."""
    register()
    if mask is not None and model.config.is_encoder_decoder:
        raise Unsupported(3, f"a mask for {type(model).__name__}, an encoder-decoder; accepted: None, or another model")
    model.set_attn_implementation("stof")
    users = None if mask is None else mask_of(mask)
    for module in model.modules():
        if users is None:
            _user_masks.pop(module, None)
        else:
            _user_masks[module] = users


@dataclass
class ModelMask:
    """What a model's mask function says of positions, and where there are tokens and no padding: bool [B, M], or None."""

    mask: Mask
    tokens: torch.Tensor | None = None
    of_keys_alone: bool = False  # every query may see every token: queries may be others, as of a decoder
    evaluated: Callable[[], Mask] | None = None  # pair by pair, with the padding
    held: int | None = None  # keys that a cache with room for more has
    # All layers of a call ask for the same.
    _kept: dict[int, Kept] = field(default_factory=dict)
    _padded: dict[int, Padded] = field(default_factory=dict)

    def kept(self, queries: int) -> Kept:
        """The queries are the last tokens, and padding where these are."""
        if queries not in self._kept:
            self._kept[queries] = Kept.of(self.tokens[:, -queries:], self.tokens)
        return self._kept[queries]

    def padded(self, queries: int) -> Padded:
        if queries not in self._padded:
            self._padded[queries] = self._make_padded(queries)
        return self._padded[queries]

    def _make_padded(self, queries: int) -> Padded:
        if self.tokens is None:
            return Padded(self.mask)
        keys = self.tokens.shape[1]
        numbers = self.tokens.int()
        runs = torch.stack([numbers.argmax(1), keys - numbers.flip(1).argmax(1), numbers.sum(1)], 1).tolist()
        runs = [(first, end) if count else (0, 0) for first, end, count in runs]
        if sum(end - first for first, end in runs) != int(numbers.sum()):  # not one run each
            return Padded(self.evaluated())
        if all(first == 0 for first, _ in runs) and (self.of_keys_alone or queries == keys):
            lengths = [end for _, end in runs]
            return Padded(self.mask, None if self.of_keys_alone else lengths, lengths)
        # Of tokens up to the last key nothing is said of the end, which grows as they are made: the mask stays.
        of_items = [f"{item}: where(k >= {first}{f' & k < {end}' if end < keys else ''})" for item, (first, end) in enumerate(runs)]
        return Padded(self.mask & f"batch({', '.join(of_items)})")


@dataclass(frozen=True)
class Padded:
    """A mask that knows of the padding, or lengths that do."""

    mask: Mask
    q_lengths: list[int] | None = None
    kv_lengths: list[int] | None = None


@dataclass(frozen=True)
class Kept:
    """Which rows of queries and keys are no padding, and where those of an item begin among them."""

    rows: torch.Tensor
    keys: torch.Tensor
    lengths: list[tuple[int, int]]
    offsets: list[list[int]]

    @classmethod
    def of(cls, of_queries: torch.Tensor, tokens: torch.Tensor) -> Kept:
        rows, keys = (one.flatten().nonzero().flatten() for one in (of_queries, tokens))
        lengths = torch.stack([of_queries.sum(1), tokens.sum(1)]).tolist()
        return cls(rows, keys, list(zip(*lengths)), [[0, *itertools.accumulate(one)] for one in lengths])


def made_mask(batch_size: int, q_length: int, kv_length: int, q_offset: Any = 0, kv_offset: int = 0,
              mask_function: Any = masking_utils.causal_mask_function, attention_mask: torch.Tensor | None = None,
              **given: Any) -> torch.Tensor:  # fmt: skip
    """A mask interface of transformers. A function of positions becomes an expression of the mask language; one that
    looks at tensors, as for packed sequences, is evaluated for all pairs by transformers. What comes back is a tensor
    of four dimensions without elements, for models to hand on, and has the ModelMask as `stof`."""
    def evaluated(held: int | None = None) -> Mask:
        pairs = masking_utils.sdpa_mask(batch_size=batch_size, q_length=q_length, kv_length=kv_length, q_offset=q_offset,
                                        kv_offset=kv_offset, mask_function=mask_function, attention_mask=attention_mask,
                                        **given | {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False})  # fmt: skip
        return Mask.bits(pairs.expand(batch_size, 1, q_length, kv_length)[..., :held].cpu())

    try:
        made = _of_positions(mask_function, (q_length, kv_length), (int(q_offset), int(kv_offset)), attention_mask)
        made.evaluated = functools.partial(evaluated, made.held)
    except InvalidArgument:
        made = ModelMask(evaluated())
    handed_on = torch.empty((batch_size, 1, q_length, 0), dtype=torch.uint8)
    handed_on.stof = made
    return handed_on


def _tokens(attention_mask: torch.Tensor | None, keys: int, first: int) -> torch.Tensor | None:
    if attention_mask is None:
        return None
    tokens = masking_utils.prepare_padding_mask(attention_mask, keys, first)[:, first : first + keys].bool()
    return None if tokens.all() else tokens


def _of_positions(function: Any, lengths: tuple[int, int], offsets: tuple[int, int], of_tokens: torch.Tensor | None) -> ModelMask:
    """Positions are counted from the last query, which sees the last key; of a cache with room for more, the last one that
    it has. InvalidArgument where that is no function of positions."""
    (queries, keys), first_key = lengths, offsets[1]
    if function is masking_utils.bidirectional_mask_function:
        return ModelMask(Mask("all"), tokens=_tokens(of_tokens, keys, first_key), of_keys_alone=True)
    end = offsets[0] + queries - first_key  # behind the last query's position among the keys
    if not 1 <= end <= keys:
        raise InvalidArgument(2, f"the last query at position {end - 1} of {keys} keys")
    mask = Mask.where(lambda b, h, q, k: function(b, h, q + first_key if first_key else q, k + first_key if first_key else k))
    return ModelMask(mask, tokens=_tokens(of_tokens, end, first_key), held=end if end < keys else None)


def attention_forward(module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
                      attention_mask: torch.Tensor | None, dropout: float = 0.0, scaling: float | None = None,
                      sliding_window: int | None = None, softcap: float | None = None, is_causal: bool | None = None,
                      s_aux: torch.Tensor | None = None, **given: Any) -> tuple[torch.Tensor, None]:  # fmt: skip
    """An attention function of transformers: query [B, H, N, D], key and value [B, Hkv, M, D] to [B, N, H, D]."""
    if given.get("position_bias") is not None or given.get("output_attentions"):
        raise Unsupported(3, "attention by stof neither adds a position bias nor keeps weights; use another attn_implementation")
    if dropout != 0 and module.training:
        raise Unsupported(3, f"attention by stof is for inference: dropout {dropout} in training; call model.eval()")
    of_model = _mask_of_model(module, attention_mask, sliding_window, is_causal)
    users = _user_masks.get(module)
    call = _Call(query, key[:, :, : of_model.held], value[:, :, : of_model.held], scaling, softcap, s_aux is not None)
    if users is None:
        out, lse = call.padded(of_model.padded(query.shape[2]))
    elif of_model.tokens is None:
        out, lse = call.padded(Padded(_joined(of_model.mask, users)))
    else:  # positions of a user's mask are those of the tokens
        out, lse = call.packed(_joined(of_model.mask, users), of_model.kept(query.shape[2]))
    if s_aux is not None:  # a sink: one more term in the sum of weights, without a value
        out *= torch.sigmoid(lse - s_aux.reshape(1, -1, 1)).transpose(1, 2).unsqueeze(-1).to(out.dtype)
    return out, None


def _mask_of_model(module: Any, given: torch.Tensor | None, window: int | None, is_causal: bool | None) -> ModelMask:
    if isinstance(of_model := getattr(given, "stof", None), ModelMask):
        return of_model
    if given is None:  # the model made none
        causal = getattr(module, "is_causal", False) if is_causal is None else is_causal
        if window is not None and not causal:
            raise Unsupported(3, f"a sliding window of {window} that is not causal came without a mask")
        return ModelMask(Mask(f"causal & window({window - 1})" if window else "causal" if causal else "all"))
    if given.dtype != torch.bool or given.dim() != 4:
        raise Unsupported(3, f"an attention mask of {given.dtype} {list(given.shape)}; accepted: bool [B, H, N, M], True where a query may "
                          "attend to a key, and those that models make")  # fmt: skip
    return ModelMask(Mask.bits(given.cpu()))


@functools.lru_cache(maxsize=256)
def _joined(mask: Mask, other: Mask) -> Mask:
    return mask & other


@dataclass
class _Call:
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    scale: float | None
    softcap: float | None
    wants_lse: bool

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
        plan = self._plan(mask)
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

    def _plan(self, mask: Mask) -> Attention:
        batch, heads, queries, dim = self.q.shape
        dtype = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}.get(self.q.dtype, str(self.q.dtype))
        return planned_for_more(mask, batch=batch, heads=heads, kv_heads=self.k.shape[1], queries=queries, keys=self.k.shape[2],
                                head_dim=dim, dtype=dtype, device=str(self.q.device), capped=self.softcap is not None)  # fmt: skip
