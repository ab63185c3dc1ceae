# SPDX-License-Identifier: Apache-2.0
"""Transformers under any attention mask: libstof.so, the C API of STOF, from Python.

stof.Session(folder).embed(["a sentence"]) is a whole model, stof.attention(q, k, v, "causal & window(256)") attention alone, on
arrays of NumPy and tensors of PyTorch; docs/python.md has the rest."""

from __future__ import annotations

from stof.c_library import DeviceFailure, Failure, InvalidArgument, Unsupported
from stof.library import library as _library
from stof.mask import Mask
from stof.plans import Attention, attention, clear_plans
from stof.relative_bias import RelativeBias
from stof.session import Session
from stof.table import TableAttention
from stof.trees import pack_tree, tree_of_parents

__all__ = ["Attention", "DeviceFailure", "Failure", "InvalidArgument", "Mask", "RelativeBias", "Session", "TableAttention", "Unsupported",
           "attention", "clear_plans", "pack_tree", "tree_of_parents"]  # fmt: skip


def __getattr__(name: str) -> str:
    """__version__ is the library's, which is loaded for it."""
    if name == "__version__":
        return _library().library.stof_version().decode()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
