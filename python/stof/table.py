# SPDX-License-Identifier: Apache-2.0
"""Masks that are made while a model runs, on the device that uses them: blocks that were selected, for one."""

from __future__ import annotations

import contextlib
from typing import Any

from stof import c_library
from stof.arrays import UINT8, device_name, name_of, stream_of, view
from stof.c_library import InvalidArgument
from stof.given_numbers import MOST, whole
from stof.interrupt import interruptible
from stof.library import library
from stof.mask import Mask, mask_of
from stof.plans import Attention
from stof.recorded import outside_of_later_graphs

_KINDS = {"lists": c_library.TABLE_LISTS, "blocks": c_library.TABLE_BLOCKS, "bits": c_library.TABLE_BITS, "packed": c_library.TABLE_PACKED}


class TableAttention(Attention):
    """A plan for the form of a table; `update` says what it holds, before the first run and as often as wanted. A pair is
    allowed where the table and `limit` allow it. `kind`:

    * "lists": int32 [batch, heads, ceil(queries / block_q), width], key blocks in any order, -1 for none
    * "blocks": bool [batch, heads, ceil(queries / block_q), ceil(keys / block_kv)]
    * "bits": bool [batch, heads, queries, keys]
    * "packed": uint8 [batch, heads, queries, ceil(keys / 8)], key j is bit j % 8 of byte j // 8

    `table_batch` and `table_heads` are 1 where items or heads share a table; else the shape's batch, and its heads or
    kv_heads. `block_q` and `block_kv` are multiples of 64. `capacity`: tiles of 64 keys that 64 rows of a head use at most, 0
    for all that can come; where they use more, out and lse are NaN. The shape is that of Attention."""

    def __init__(self, kind: str, *, limit: Mask | str | None = None, table_batch: int = 1, table_heads: int = 1,
                 block_q: int = 64, block_kv: int = 64, width: int = 0, capacity: int = 0, batch: int, heads: int,
                 queries: int, keys: int, head_dim: int, kv_heads: int | None = None, dtype: str = "f16",
                 device: str = "auto", capped: bool = False, biased: bool = False):  # fmt: skip
        if kind not in _KINDS:
            raise InvalidArgument(2, f"a table of kind {kind!r}; accepted: {', '.join(_KINDS)}")
        self.kind = kind
        numbers = {"table_batch": table_batch, "table_heads": table_heads, "block_q": block_q, "block_kv": block_kv, "width": width, "capacity": capacity}
        for name, value in numbers.items():
            whole(name, value, -MOST)
        of_limit = None if limit is None else mask_of(limit)  # has to live as long as its handle is used
        with interruptible(library().library):
            self._keep(library().table_plan(
                self._shape(batch, heads, kv_heads, queries, keys, head_dim, dtype, capped, biased=biased),
                limit=None if of_limit is None else of_limit.handle, device=device_name(device), kind=_KINDS[kind], batch=table_batch,
                heads=table_heads, block_q=block_q, block_kv=block_kv, width=width, capacity=capacity))  # fmt: skip
        rows = queries if kind in ("bits", "packed") else -(-queries // block_q)
        columns = {"lists": width, "blocks": -(-keys // block_kv), "bits": keys, "packed": -(-keys // 8)}[kind]
        self.table_shape = (table_batch, table_heads, rows, columns)

    @outside_of_later_graphs
    def update(self, contents: Any, status: Any = None) -> None:
        """What the table holds for runs from now on, where it lies on the plan's device; any strides whose last is 1. On a
        GPU this plans on PyTorch's current stream, without a copy to the host or a wait, and can be recorded; what
        overlaps with it on other streams is the caller's to order. `status`, int32 [3] on that device: 64 rows with more
        tiles than there is room for, the most tiles that some 64 rows use, entries of lists that are no block."""
        dtype = {"lists": c_library.I32, "packed": UINT8}.get(self.kind, c_library.BOOL)
        of = view(contents, "contents", (dtype,))
        if of.shape != self.table_shape or of.dtype != dtype or (of.shape[3] > 1 and of.strides[3] != 1):
            raise InvalidArgument(2, f"contents {list(of.shape)} of {name_of(of.dtype)} with strides {list(of.strides)}; accepted: {name_of(dtype)} "
                                     f"{list(self.table_shape)}, any strides whose last is 1")  # fmt: skip
        to = None if status is None else view(status, "status", (c_library.I32,), written=True)
        if to is not None and (to.shape != (3,) or to.strides != (1,) or to.dtype != c_library.I32 or to.device != of.device):
            raise InvalidArgument(2, f"status {list(to.shape)} of {name_of(to.dtype)} on {to.device}; accepted: i32 [3] on {of.device}")
        strides = [0 if length == 1 else step for length, step in zip(of.shape[:3], of.strides)]
        with interruptible(library().library) if of.on_host() else contextlib.nullcontext():
            library().update(self._plan, of.address, strides, None if to is None else to.address, stream_of(of))
