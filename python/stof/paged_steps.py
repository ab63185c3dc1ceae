# SPDX-License-Identifier: Apache-2.0
"""Steps of transformers' continuous batching: which rows of its paged cache the requests of a step have, where new keys go, and of which
sizes plans are that serve many steps."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import torch

from stof.c_library import InvalidArgument, Unsupported

PAGES = (256, 128, 64, 32, 16)  # keys of a page, as kernels read them
LEAST_KEYS, LEAST_QUERIES = 256, 16  # of plans: what is shorter is served by these


@dataclass(frozen=True)
class Given:
    """What continuous batching hands to the attention of one layer, of its kind of layers."""

    cache: Any  # a PagedAttentionCache
    layer: int
    cu_q: torch.Tensor
    cu_k: torch.Tensor
    longest: tuple[int, int]  # queries and keys of a request, at most
    read_index: list[torch.Tensor] | None
    write_index: list[torch.Tensor] | None
    block_table: torch.Tensor | None

    @classmethod
    def of(cls, cache: Any, layer: int, given: dict[str, Any]) -> Given:
        """Takes out of `given` what is of the step."""
        take = lambda name: given.pop(name, None)  # noqa: E731
        cu_q, cu_k, queries, keys = (take(name) for name in ("cu_seq_lens_q", "cu_seq_lens_k", "max_seqlen_q", "max_seqlen_k"))
        take("logits_indices"), take("logits_processor_args")  # of what comes behind the last layer
        if isinstance(cu_k, dict):  # of models with layers of both kinds
            kind = "full_attention" if cache.sliding_windows[layer] == 1 else "sliding_attention"
            cu_k, keys = cu_k[kind], keys[kind]
        of_step = cls(cache, layer, cu_q, cu_k, (queries, keys), *(take(name) for name in ("read_index", "write_index", "block_table")))
        if any(one is None for one in (cu_q, cu_k, queries, keys)) or (of_step.block_table is None and None in (of_step.read_index, of_step.write_index)):
            raise InvalidArgument(2, "attention over a paged cache without cu_seq_lens_q, cu_seq_lens_k, max_seqlen_q, max_seqlen_k, and read_index "
                                  "with write_index or block_table; accepted: the calls that continuous batching makes")  # fmt: skip
        return of_step

    @property
    def group(self) -> int:
        return self.cache.layer_index_to_group_indices[self.layer][0]

    @property
    def place_in_group(self) -> int:
        return self.cache.layer_index_to_group_indices[self.layer][1]

    @property
    def window(self) -> int | None:
        """Of layers whose cache keeps the last keys alone, and those not in their order."""
        kept = self.cache.sliding_windows[self.layer]
        return None if kept == 1 else kept

    @property
    def reads_nothing(self) -> bool:
        """All keys are new: the step is of whole prompts."""
        return self.block_table is None and self.read_index[self.group].numel() == 0

    @property
    def page(self) -> int | None:
        """Keys of a page where blocks are made of pages, which a table can name."""
        if self.window is not None:
            return None
        return next((page for page in PAGES if self.cache.block_size % page == 0), None)

    def stored(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of all slots of the cache, [slots, Hkv, D]."""
        return self.cache.key_cache[self.place_in_group], self.cache.value_cache[self.place_in_group]

    def pages(self) -> list[torch.Tensor]:
        """The same as [pages, Hkv, page size, D], where they lie."""
        return [one.view(-1, self.page, *one.shape[1:]).transpose(1, 2) for one in self.stored()]

    def write(self, slots: torch.Tensor, new: tuple[torch.Tensor, torch.Tensor]) -> None:
        """`new` [1, Hkv, tokens, D] of keys and of values."""
        for to, one in zip(self.stored(), new):
            to.index_copy_(0, slots, one[0].transpose(0, 1))

    def refuse_unlike(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        held = self.stored()[0]
        if (len(query), key.shape[2]) != (1, query.shape[2]):
            raise InvalidArgument(2, f"query {list(query.shape)} and key {list(key.shape)} over a paged cache; accepted: [1, heads, tokens of all requests, D]")
        if key.shape[1::2] != held.shape[1:] or key.dtype != held.dtype or key.device != held.device:
            raise Unsupported(3, f"keys of {key.shape[1]} heads of {key.shape[3]} in {key.dtype} on {key.device} for a paged cache with {held.shape[1]} "
                              f"of {held.shape[2]} in {held.dtype} on {held.device}; accepted: the same, or generate without continuous batching")  # fmt: skip
        if value.shape[3] > key.shape[3]:
            raise Unsupported(3, f"values of {value.shape[3]} beside keys of {key.shape[3]} for a paged cache with heads of {held.shape[2]}; accepted: "
                              "as wide or narrower, or generate without continuous batching")  # fmt: skip


@dataclass(frozen=True)
class Table:
    """Of one step and one kind of layers: keys of each request, the pages that have them, and where new keys go. Its numbers lie on the
    device and are made there: the host neither reads nor waits."""

    asked: tuple[Any, ...]
    lengths: torch.Tensor  # int32 [requests]
    pages: torch.Tensor | None  # int32 [requests, pages of the longest]
    slots: torch.Tensor | None

    @classmethod
    def of(cls, given: Given) -> Table:
        """As the first layer of the group has made it: what the numbers are is another thing in each step, also where tensors stay.
        What a graph records must not be what an earlier call computed."""
        groups = _tables.setdefault(given.cache, {})
        asked = given.cu_q, given.read_index[given.group] if given.block_table is None else given.block_table, recording(given.cu_q)
        known = groups.get(given.group)
        if known is None or given.place_in_group == 0 or any(one is not other for one, other in zip(asked, known.asked)):
            known = groups[given.group] = cls(asked, *(_of_indices(given) if given.block_table is None else _of_blocks(given)))
        return known


_tables: weakref.WeakKeyDictionary[Any, dict[int, Table]] = weakref.WeakKeyDictionary()


def recording(tensor: torch.Tensor) -> bool:
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()


def _of_indices(given: Given) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor]:
    """Slots of a request's keys stand in read_index one after the other: that of the first key of a page says which page it is."""
    lengths, index = given.cu_k.diff().int(), given.read_index[given.group]
    if given.page is None or index.numel() == 0:
        return lengths, None, given.write_index[given.group]
    first = torch.arange(0, given.longest[1], given.page, device=lengths.device, dtype=torch.int32)
    there = first < lengths[:, None]
    at = torch.where(there, first + given.cu_k[:-1, None], 0)  # behind a request's last page any that there is
    return lengths, torch.where(there, index[at] // given.page, 0).int(), given.write_index[given.group]


def _of_blocks(given: Given) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor]:
    """Of requests that decode, one query each; a request that is padding has no key."""
    lengths, size = given.cu_k.diff().int(), given.cache.block_size
    blocks = given.block_table[given.group]  # -1 behind a request's last one, where nobody looks
    last = (lengths - 1).clamp(min=0)
    slots = blocks.gather(1, (last // size)[:, None].long())[:, 0].long() * size + last % size
    slots = torch.where(lengths > 0, slots, given.cache.write_trash_index)
    if given.page is None:
        raise Unsupported(3, f"a block_table of blocks of {size} keys{' with a sliding window' if given.window else ''}; accepted: blocks of a multiple "
                          f"of {PAGES[-1]}, without a window, or read_index")  # fmt: skip
    of_block = torch.arange(size // given.page, device=blocks.device, dtype=torch.int32)
    return lengths, (blocks[:, :, None] * len(of_block) + of_block).flatten(1), slots


def planned_sizes(requests: int, queries: int, keys: int, most: int) -> dict[str, int]:
    """Rounded up, so that few plans serve all steps: powers of two, of queries of four, whose number does not matter as much, up to the `most`
    tokens of a step."""
    more = max(LEAST_QUERIES, 1 << 2 * ((queries - 1).bit_length() + 1 >> 1))
    of_queries = 1 if queries == 1 else min(more, max(most, queries))
    return {"batch": 1 << (requests - 1).bit_length(), "queries": of_queries, "keys": max(LEAST_KEYS, of_queries, 1 << (keys - 1).bit_length())}
