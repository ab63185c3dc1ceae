# SPDX-License-Identifier: Apache-2.0
"""Relative position biases that are timed: what is added to scores by how far a key is from its query, head by head."""
from __future__ import annotations

import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Bias:
    """values(heads)[h, reach + d] is what head h adds to a key d positions behind its query, or further than `reach`."""

    kind: str  # "buckets" or "alibi"
    reach: int

    @property
    def said(self) -> str:
        return f"{self.kind}({self.reach})"

    @property
    def linear(self) -> bool:
        """-slope * |d| has a closed form."""
        return self.kind == "alibi"

    def values(self, heads: int) -> torch.Tensor:
        """f32 [heads, 2 reach + 1] of the host, the same for each call."""
        distances = torch.arange(-self.reach, self.reach + 1)
        if self.linear:
            return -slopes(heads)[:, None] * distances.abs()
        return of_buckets(heads)[:, buckets(distances)]


def slopes(heads: int) -> torch.Tensor:
    """f32 [heads], of ALiBi, whose heads are a power of two."""
    return 2.0 ** (-8 / heads * torch.arange(1, heads + 1))


def of_buckets(heads: int, count: int = 32) -> torch.Tensor:
    """f32 [heads, count] at random, of numbers that 16 bits hold: a peer that has them so adds the same."""
    generator = torch.Generator().manual_seed(7)
    return (2 * torch.randn(heads, count, generator=generator)).bfloat16().float()


def buckets(distances: torch.Tensor, count: int = 32, furthest: int = 128) -> torch.Tensor:
    """As T5 and MPNet have them: half behind and half in front; the nearest have one each, others share one by their logarithm, up to `furthest`."""
    half, near = count // 2, count // 4
    away = distances.abs()
    shared = near + (torch.log(away.clamp(min=1) / near) / math.log(furthest / near) * (half - near)).long()
    return half * (distances > 0) + torch.where(away < near, away, shared.clamp(max=half - 1))


def added(values: torch.Tensor, positions: torch.Tensor, keys: int) -> torch.Tensor:
    """[heads, rows, keys], or for one head's values [rows, keys]: what is added to scores of queries at these positions."""
    reach = values.shape[-1] // 2
    distances = torch.arange(keys, device=positions.device)[None] - positions[:, None]
    return values[..., reach + distances.clamp(-reach, reach)]
