# SPDX-License-Identifier: Apache-2.0
"""The masks that models of transformers make: of positions an expression, of padding lengths or a term, else pair by pair."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import masking_utils

from stof.c_library import InvalidArgument, Unsupported
from stof.handed_on import HandedOn, plain
from stof.mask import Mask
from stof.packed_texts import PackedTexts
from stof.positions import of_items, of_tokens, shifted
from stof.recorded import outside_of_graphs, refuse_recording

_NAMED = {masking_utils.causal_mask_function: "causal", masking_utils.bidirectional_mask_function: "all"}


@dataclass
class ModelMask:
    """What a model's mask function says of positions, and where there are tokens and no padding: bool [B, M], or None."""

    mask: Mask
    tokens: torch.Tensor | None = None
    of_keys_alone: bool = False  # every query may see every token: queries may be others, as of a decoder
    evaluated: Callable[[], Mask] | None = None  # pair by pair, with the padding
    held: int | None = None  # keys that a cache with room for more has
    before: list[int] | None = None  # tokens of each item that the cache has dropped; None where it has not
    placed: bool = True  # the last query stands at the last key
    texts: PackedTexts | None = None
    # All layers of a call ask for the same.
    _kept: dict[int, Kept] = field(default_factory=dict)
    _padded: dict[int, Padded] = field(default_factory=dict)
    _beside: dict[tuple[Mask, int, int], tuple[Mask, Kept | None]] = field(default_factory=dict)

    def kept(self, queries: int) -> Kept:
        """The queries are the last tokens, and padding where these are."""
        if queries not in self._kept:
            self._kept[queries] = Kept.of(self.tokens[:, -queries:], self.tokens)
        return self._kept[queries]

    def padded(self, queries: int) -> Padded:
        if queries not in self._padded:
            self._padded[queries] = self._make_padded(queries)
        return self._padded[queries]

    def beside(self, users: Mask, items: int, queries: int) -> tuple[Mask, Kept | None]:
        """Both masks, of which the user's goes by the positions of tokens, and the tokens that are to be packed for it."""
        asked = users, items, queries
        if asked not in self._beside:
            if self.texts is None:
                joined, packs = self._make_beside(users, items)
                self._beside[asked] = joined, self.kept(queries) if packs else None
            else:
                self._beside[asked] = self._make_beside_texts(users, (items, queries))
        return self._beside[asked]

    def _make_padded(self, queries: int) -> Padded:
        if self.tokens is None or self.mask.depends_on_length:  # the latter has the padding
            return Padded(self.mask)
        keys, runs = self.tokens.shape[1], self._runs
        if not all(len(of_item) <= 1 for of_item in runs):
            return Padded(self.evaluated())
        runs = [of_item[0] if of_item else (0, 0) for of_item in runs]
        if all(first == 0 for first, _ in runs) and (self.of_keys_alone or queries == keys):
            lengths = [end for _, end in runs]
            return Padded(self.mask, None if self.of_keys_alone else lengths, lengths)
        # Of tokens up to the last key nothing is said of the end, which grows as they are made: the mask stays.
        return Padded(self.mask & of_items([Mask(f"where(k >= {first}{f' & k < {end}' if end < keys else ''})") for first, end in runs]))

    def _make_beside(self, users: Mask, items: int) -> tuple[Mask, bool]:
        before = self.before or [0] * items
        if self.tokens is None:
            return self.mask & of_items([shifted(users, count) for count in before]), False
        runs, of_order = self._runs, str(self.mask) in ("all", "causal")
        if not self.mask.depends_on_length and (of_order or all(len(of_item) <= 1 for of_item in runs)):
            of_model = self.mask if of_order else of_items([shifted(self.mask, of_item[0][0] if of_item else 0) for of_item in runs])
            return of_model & of_items([shifted(users, count) for count in before]), True
        # A model's own window counts padding between tokens, which packing would take away.
        pairs = self.mask if self.mask.depends_on_length else self.evaluated()
        return pairs & of_items([of_tokens(users, of_item, count) for of_item, count in zip(runs, before)]), False

    def _make_beside_texts(self, users: Mask, shape: tuple[int, int]) -> tuple[Mask, Kept | None]:
        joined = self.texts.beside(users) if shape == self.texts.shape else None
        if joined is not None:
            return joined, Kept.of_texts(self.texts)
        self.texts.refuse_by_rows(users)
        return self.mask & users, None

    @functools.cached_property
    def _runs(self) -> list[list[tuple[int, int]]]:
        """Of each item, where tokens lie without padding between them."""
        edges = torch.nn.functional.pad(self.tokens.int(), (1, 1)).diff(dim=1)
        runs: list[list[tuple[int, int]]] = [[] for _ in range(len(self.tokens))]
        for (item, first), (_, end) in zip((edges == 1).nonzero().tolist(), (edges == -1).nonzero().tolist()):
            runs[item].append((first, end))
        return runs


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
    longest: int | None = None  # of texts that are items here; None where items are those of the batch

    @classmethod
    def of_texts(cls, texts: PackedTexts) -> Kept:
        """All rows, in their order."""
        rows = torch.arange(texts.shape[0] * texts.shape[1])
        lengths = [end - first for _, first, end in texts.bounds]
        return cls(rows, rows, [(length, length) for length in lengths], [[0, *itertools.accumulate(lengths)]] * 2, max(lengths))

    @classmethod
    def of(cls, of_queries: torch.Tensor, tokens: torch.Tensor) -> Kept:
        rows, keys = (one.flatten().nonzero().flatten() for one in (of_queries, tokens))
        lengths = torch.stack([of_queries.sum(1), tokens.sum(1)]).tolist()
        return cls(rows, keys, list(zip(*lengths)), [[0, *itertools.accumulate(one)] for one in lengths])


@outside_of_graphs  # what is compiled ends in front of it: it looks at numbers, and its result is another one each time
def made_mask(batch_size: int, q_length: int, kv_length: int, q_offset: Any = 0, kv_offset: Any = 0,
              mask_function: Any = masking_utils.causal_mask_function, attention_mask: torch.Tensor | None = None,
              **given: Any) -> torch.Tensor:  # fmt: skip
    """A mask interface of transformers. A function of positions becomes an expression of the mask language; one that
    looks at tensors, as for packed sequences, is evaluated for all pairs by transformers. What comes back is a tensor
    of four dimensions without elements, for models to hand on, and has the ModelMask as `stof`. One that computes with it
    gets all pairs, as bools."""
    refuse_recording(torch, "a model with attention by stof")
    attention_mask = _of_batch(attention_mask, batch_size)
    query, key = int(q_offset), int(kv_offset)  # now: static caches have them as tensors, and count on before layers ask

    def pairs() -> torch.Tensor:
        made = masking_utils.sdpa_mask(batch_size=batch_size, q_length=q_length, kv_length=kv_length, q_offset=query,
                                       kv_offset=key, mask_function=mask_function, attention_mask=attention_mask,
                                       **given | {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False})  # fmt: skip
        return made.expand(batch_size, 1, q_length, kv_length)

    evaluated = lambda held=None: Mask.bits(pairs()[..., :held].cpu())  # noqa: E731
    handed_on = torch.empty((batch_size, 1, q_length, 0), dtype=torch.bool).as_subclass(HandedOn)
    handed_on.pairs = functools.cache(pairs)  # all layers ask for the same
    handed_on.stof = _model_mask(mask_function, (q_length, kv_length), (query, key), attention_mask, evaluated)
    handed_on.stof.before = _before(attention_mask, key, batch_size)
    return handed_on


def _model_mask(function: Any, lengths: tuple[int, int], offsets: tuple[int, int], of_tokens: torch.Tensor | None,
                evaluated: Callable[[int | None], Mask]) -> ModelMask:  # fmt: skip
    """Positions are counted from the last query, which sees the last key; of a cache with room for more, the last one that
    it has."""
    (queries, keys), (first_query, first_key) = lengths, offsets
    if function is masking_utils.bidirectional_mask_function:
        return ModelMask(Mask("all"), _tokens(of_tokens, keys, first_key), of_keys_alone=True, evaluated=functools.partial(evaluated, None))
    end = first_query + queries - first_key  # behind the last query's position among the keys
    if not 1 <= end <= keys:
        return ModelMask(evaluated(None), placed=False)
    held = end if end < keys else None
    try:
        mask = Mask(_NAMED[function]) if function in _NAMED else Mask.where(lambda b, h, q, k: function(b, h, q + first_key, k + first_key))
    except InvalidArgument:
        mask = evaluated(held)
    return ModelMask(mask, _tokens(of_tokens, end, first_key), evaluated=functools.partial(evaluated, held), held=held,
                     texts=PackedTexts.of(function))  # fmt: skip


def _of_batch(attention_mask: torch.Tensor | None, items: int) -> torch.Tensor | None:
    if attention_mask is None or attention_mask.shape[0] == items:
        return attention_mask
    if attention_mask.shape[0] != 1 and not attention_mask.all():
        raise InvalidArgument(2, f"attention_mask {list(attention_mask.shape)} for a batch of {items}; accepted: [{items}, tokens], 1 for a token and 0 for padding")
    return attention_mask[:1].expand(items, -1)


def _tokens(attention_mask: torch.Tensor | None, keys: int, first: int) -> torch.Tensor | None:
    if attention_mask is None:
        return None
    tokens = masking_utils.prepare_padding_mask(attention_mask, keys, first)[:, first : first + keys].bool()
    return None if tokens.all() else tokens


def _before(attention_mask: torch.Tensor | None, first: int, items: int) -> list[int] | None:
    if first == 0:
        return None
    return [first] * items if attention_mask is None else attention_mask[:, :first].sum(1).tolist()


def of_given(given: torch.Tensor | None, window: int | None, causal: bool, sizes: tuple[int, int, int, int]) -> ModelMask:
    """What a model hands on to its attention: what made_mask made, None, or a mask of its own. sizes: items, heads, queries, keys."""
    if isinstance(of_model := getattr(given, "stof", None), ModelMask):
        return of_model
    if given is None:  # the model made none
        if window is not None and not causal:
            raise Unsupported(3, f"a sliding window of {window} that is not causal came without a mask")
        return ModelMask(Mask(f"causal & window({window - 1})" if window else "causal" if causal else "all"), of_keys_alone=not causal)
    given = plain(given)
    if given.dim() == 4 and given.is_floating_point() and _forbids_alone(given):
        given = given == 0
    if given.dtype != torch.bool or given.dim() != 4:
        raise Unsupported(3, f"an attention mask of {given.dtype} {list(given.shape)}; accepted: bool [B, H, N, M], True where a query may "
                          "attend to a key, of floating point where all are 0 or the least number, or one of -1e4 or less, and those that models make")  # fmt: skip
    if any(one not in (1, size) for one, size in zip(given.shape, sizes)):
        raise InvalidArgument(2, f"attention_mask {list(given.shape)}; accepted: {list(sizes)}, or 1 where one is for all")
    return ModelMask(Mask.bits(given.cpu()))


def _forbids_alone(added: torch.Tensor) -> bool:
    """Whether numbers that are added to scores leave them or make their weights 0, as -10000 and -1e9 do of earlier models."""
    others = added[added != 0]
    if (others <= torch.finfo(added.dtype).min).all():
        return True
    far = torch.tensor(-1e4, dtype=added.dtype)  # as it is rounded there
    return bool((others == others[0]).all() and others[0] <= far)
