# SPDX-License-Identifier: Apache-2.0
"""Calls that PyTorch records, transforms or differentiates: it knows nothing of what the library computes, and would leave it out silently."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from stof.c_library import InvalidArgument, Unsupported

_RECORDING = {"ProxyTorchDispatchMode": "make_fx or torch.export", "FakeTensorMode": "FakeTensorMode or torch.export", "FunctionalTensorMode": "torch.export"}
WHAT_IS_POSSIBLE = "torch.compile without fullgraph, which leaves this call to Python, or a call outside"


def outside_of_graphs(function: Callable[..., Any]) -> Callable[..., Any]:
    """What torch.compile compiles ends in front of it, and begins again behind it."""
    import torch

    why = f"attention by stof, of which PyTorch's graphs know nothing; accepted: {WHAT_IS_POSSIBLE}"
    try:
        return torch.compiler.disable(function, reason=why)
    except TypeError:  # of an earlier PyTorch, which gives no reason
        return torch.compiler.disable(function)


def outside_of_later_graphs(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same where PyTorch may not be there yet, or has not loaded its compiler, which takes a second. Without it torch.compile follows the
    package's own code as far as it can, warns of its caches, and compiles pieces of it for each address."""

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        torch = sys.modules.get("torch")
        compiler = getattr(torch, "compiler", None)
        if hasattr(compiler, "is_compiling") and compiler.is_compiling():  # which early versions cannot say
            return outside_of_graphs(function)(*given, **named)
        return function(*given, **named)

    return call


def refuse_recording(torch: Any, what: str) -> None:
    """`what` is what errors call it."""
    if not torch._C._is_tracing() and torch._C._len_torch_dispatch_stack() == 0:  # of all but few calls, each of which asks
        return
    by = "torch.jit.trace" if torch.jit.is_tracing() else None
    if by is None:
        modes = [type(mode).__name__ for mode in torch.utils._python_dispatch._get_current_dispatch_mode_stack()]
        by = next((_RECORDING[mode] for mode in modes if mode in _RECORDING), None)
    if by is not None:
        raise Unsupported(3, f"{what} under {by}, which records what PyTorch computes, and nothing of stof; accepted: {WHAT_IS_POSSIBLE}")


def refuse_gradients(torch: Any, tensor: Any, name: str) -> None:
    if tensor.requires_grad and torch.is_grad_enabled():
        raise InvalidArgument(2, f"{name} requires a gradient, and there is no backward pass; call under torch.no_grad(), or detach it")
    forward = torch.autograd.forward_ad
    if forward._current_level >= 0 and forward.unpack_dual(tensor).tangent is not None:
        raise InvalidArgument(2, f"{name} has a tangent of forward-mode differentiation, and nothing is differentiated here; call outside of dual_level(), "
                              "or take unpack_dual(it).primal")  # fmt: skip


def address_of(tensor: Any, name: str) -> int:
    """Tensors of torch.vmap, torch.func.jvp and the like have none, nor have stand-ins as FakeTensors and MaskedTensors."""
    try:
        address = 0 if type(tensor).__name__ == "FakeTensor" else tensor.data_ptr()
    except RuntimeError:
        address = 0
    if address == 0 and tensor.numel() > 0:
        raise Unsupported(3, f"{name} is a {type(tensor).__name__} without memory of its own, as under torch.vmap, torch.func.jvp and FakeTensorMode; "
                          f"accepted: tensors of memory; and {WHAT_IS_POSSIBLE}")  # fmt: skip
    return address
