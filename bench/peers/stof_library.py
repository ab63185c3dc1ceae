# SPDX-License-Identifier: Apache-2.0
"""libstof.so on torch tensors of the host or of a GPU: several of it in one process, which python/stof is not for, and calls
that are put together once, before they are timed."""
from __future__ import annotations

import ctypes as c
import json
import struct
import sys
import tempfile
import weakref
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
from stof import c_library  # noqa: E402

DTYPES = {torch.float32: c_library.F32, torch.float16: c_library.F16, torch.bfloat16: c_library.BF16}


def dtype_of(value: torch.Tensor) -> int:
    if value.dtype not in DTYPES:
        raise TypeError(f"a tensor of {value.dtype}; accepted: {', '.join(map(str, DTYPES))}")
    return DTYPES[value.dtype]


def tensor(value: torch.Tensor) -> c_library.Tensor:
    """[B, H, S, D] where it lies, with any strides but that of D."""
    if value.dim() != 4 or value.stride(3) != 1:
        raise ValueError(f"a tensor {list(value.shape)} with strides {value.stride()}; accepted: four dimensions, the last contiguous")
    return c_library.Tensor(value.data_ptr(), value.stride(0), value.stride(1), value.stride(2))


class Attention:
    """A plan for q, k, v [B, H, S, D]; run() writes self.out. The plan goes with this object."""

    def __init__(self, library: c_library.Stof, text: str, q, k, v, device="cpu"):
        batch, heads, queries, dim = q.shape
        keys = k.shape[2]
        dtype = dtype_of(q)
        self.library, self.out = library, torch.full_like(q, float("nan"))
        mask = library.parse(text)
        self.plan = library.plan(mask, (batch, heads, k.shape[1], queries, keys, dim, dtype), device)
        library.library.stof_mask_destroy(mask)
        weakref.finalize(self, library.library.stof_plan_destroy, self.plan)
        self.call = c_library.Call(c.sizeof(c_library.Call), dtype, batch, queries, keys, tensor(q), tensor(k),
                                   tensor(v), tensor(self.out))
        self.kept = (q, k, v)

    def run(self):
        self.library.run(self.plan, self.call)


def write_npy(path: Path, values: torch.Tensor):
    """Of bools: by itself, since torch may be there without NumPy."""
    header = str({"descr": "|b1", "fortran_order": False, "shape": tuple(values.shape)})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    values = values.cpu().contiguous()
    data = c.string_at(values.data_ptr(), values.numel())
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def parsed(library: c_library.Stof, text: str, files: dict):
    """The text's mask. files: arrays by the names that it has for them."""
    with tempfile.TemporaryDirectory() as folder:
        for name, values in files.items():
            write_npy(Path(folder) / name, values)
        return library.mask("parse", text.encode(), folder.encode())


def mask_of(library: c_library.Stof, case):
    """From a masks.MaskCase: its text, with the arrays that it names, or its bits."""
    if case.bits is None:
        return parsed(library, case.text, case.files)
    allowed = case.bits.cpu().contiguous()
    shape = (c.c_int64 * allowed.dim())(*allowed.shape)
    array = c_library.Array(allowed.data_ptr(), shape, None, allowed.dim(), c_library.BOOL)
    return library.mask("bits", c.byref(array))


class GpuAttention:
    """A plan for sets of tensors q, k, v [B, H, S, D] of one shape on the current GPU; launch(i) writes and gives the
    output of set i, on torch's current stream, with the plan's own workspace: one of the caller's is cleared before each
    launch. bias: f32 [H, 2 reach + 1] of the host, contiguous."""

    def __init__(self, library: c_library.Stof, case, sets, softcap=None, kernel=None, bias=None):
        q, k, _ = sets[0]
        batch, heads, queries, dim = q.shape
        shape = (batch, heads, k.shape[1], queries, k.shape[2], dim, dtype_of(q), softcap is not None, 0, bias is not None)
        mask, device = mask_of(library, case), f"cuda:{q.device.index}"
        self.plan = library.plan(mask, shape, device, kernel)
        self.bias = None if bias is None else library.relative_bias(bias.data_ptr(), len(bias), bias.shape[1] // 2, device)
        self.softcap = None if softcap is None else c.pointer(c.c_float(softcap))
        self.library, self.sets, self.outs = library, sets, {}
        self.description = json.loads(library.library.stof_plan_description(self.plan))

    def launch(self, i: int) -> torch.Tensor:
        q, k, v = self.sets[i]
        out = self.outs.get(i)
        if out is None:
            out = self.outs[i] = torch.full_like(q, float("nan"))
        batch, _, queries, _ = q.shape
        call = c_library.Call(c.sizeof(c_library.Call), DTYPES[q.dtype], batch, queries, k.shape[2], tensor(q), tensor(k),
                              tensor(v), tensor(out))  # fmt: skip
        call.stream, call.softcap = torch.cuda.current_stream().cuda_stream, self.softcap
        call.relative_bias = self.bias
        self.library.run(self.plan, call)
        return out


def load(path: str) -> c_library.Stof:
    return c_library.Stof(path)
