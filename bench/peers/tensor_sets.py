# SPDX-License-Identifier: Apache-2.0
"""Inputs of one shape, as many different ones as are asked for, in the orders that contenders want: each order of a
tensor is made once and shared by all of them."""
from __future__ import annotations

import torch


class TensorSets:
    """Set i is q [B, H, S, D] and k, v [B, H or kv_heads, S or keys, D] of random numbers that depend on i alone. Queries are
    those of the last positions. softcap: of their scores, or None; bias: what is added to them (biases.Bias), or None."""

    def __init__(self, shape, dtype, softcap=None, kv_heads=None, keys=None, bias=None):
        self.shape, self.dtype, self.softcap, self.bias, self.made = tuple(shape), dtype, softcap, bias, {}
        batch, heads, length, dim = self.shape
        self.kv_heads, self.keys = kv_heads or heads, keys or length
        self.kv_shape = (batch, self.kv_heads, self.keys, dim)

    @property
    def first_position(self) -> int:
        """Of the queries."""
        return self.keys - self.shape[2]

    @property
    def grouped(self) -> bool:
        """Several heads of q share one of k and v."""
        return self.kv_heads != self.shape[1]

    def in_order(self, i: int, order: str, make):
        """(q, k, v) of set i as `make` turns each; kept under the name `order`."""
        if (i, order) not in self.made:
            self.made[i, order] = tuple(make(t) for t in self[i])
        return self.made[i, order]

    def __getitem__(self, i: int):
        if (i, "bhsd") not in self.made:
            generator = torch.Generator("cuda").manual_seed(1000 + i)
            self.made[i, "bhsd"] = tuple(torch.randn(shape, device="cuda", dtype=self.dtype, generator=generator)
                                         for shape in (self.shape, self.kv_shape, self.kv_shape))
        return self.made[i, "bhsd"]

    def bshd(self, i: int):
        return self.in_order(i, "bshd", lambda t: t.transpose(1, 2).contiguous())

    def bytes(self) -> int:
        """Of q, k, v and an output."""
        return 2 * (torch.Size(self.shape).numel() + torch.Size(self.kv_shape).numel()) * self.dtype.itemsize

    def forget(self):
        self.made.clear()
