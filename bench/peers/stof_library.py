# SPDX-License-Identifier: Apache-2.0
"""STOF as any other program would call it: libstof.so through ctypes, on torch tensors of the host."""
from __future__ import annotations

import ctypes as c
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/capi"))
import c_library  # noqa: E402  (the binding that the tests of the C API use)

DTYPES = {torch.float32: c_library.F32, torch.float16: c_library.F16, torch.bfloat16: c_library.BF16}


def tensor(value: torch.Tensor) -> c_library.Tensor:
    assert value.stride(3) == 1
    return c_library.Tensor(value.data_ptr(), value.stride(0), value.stride(1), value.stride(2))


class Attention:
    """A plan for q, k, v [B, H, S, D]; run() writes self.out."""

    def __init__(self, library: c_library.Stof, text: str, q, k, v, device="cpu"):
        batch, heads, queries, dim = q.shape
        keys = k.shape[2]
        dtype = DTYPES[q.dtype]
        self.library, self.out = library, torch.full_like(q, float("nan"))
        self.plan = library.plan(library.parse(text), (batch, heads, k.shape[1], queries, keys, dim, dtype), device)
        self.call = c_library.Call(c.sizeof(c_library.Call), dtype, batch, queries, keys, tensor(q), tensor(k),
                                   tensor(v), tensor(self.out))
        self.kept = (q, k, v)

    def run(self):
        self.library.run(self.plan, self.call)


def load(path: str) -> c_library.Stof:
    return c_library.Stof(path)
