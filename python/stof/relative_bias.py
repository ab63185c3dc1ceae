# SPDX-License-Identifier: Apache-2.0
"""What attention adds to scores by how far a key is from its query: relative position biases of T5 and MPNet, and ALiBi's."""

from __future__ import annotations

import sys
import weakref
from array import array
from collections.abc import Iterable, Mapping, Set
from typing import Any

from stof.arrays import device_name, name_of, view
from stof.c_library import F32, InvalidArgument
from stof.given_numbers import number, whole
from stof.library import library
from stof.recorded import refuse_gradients, refuse_recording

_MOST_REACH = 2**24  # the library's


class RelativeBias:
    """Made once, for any number of calls and threads, on the device of their plans. `values` [heads, 2 reach + 1]: values[h][reach + d] is added
    to what head h scores key j for a query at p, d = j - p, below 0 for earlier keys, where it is scaled by then. Keys
    further away than `reach` have the value of the furthest one. They are numbers of NumPy, of PyTorch, of any device, or
    of nested sequences, and copied, as f32. `device` is "cpu", "cuda", "cuda:N" or "auto", or PyTorch's."""

    def __init__(self, values: Any, *, device: Any = "auto"):
        self._keep(*_as_f32(values), device)

    @classmethod
    def alibi(cls, slopes: Iterable[Any], reach: int, *, device: Any = "auto") -> RelativeBias:
        """-slope * |d|, of a slope for each head (Press et al., Train Short, Test Long, 2021). Keys further away than `reach`
        have what the furthest one has: take keys - 1 of the longest text."""
        reach = whole("reach", reach, 0, _MOST_REACH)
        listed = [number(f"slopes[{h}]", slope) for h, slope in enumerate(_in_order("slopes", slopes, "a number for each head"))]
        rows = array("f")
        for slope in listed:
            away = array("f", (-slope * d for d in range(reach + 1)))
            rows += away[:0:-1] + away
        made = cls.__new__(cls)
        made._keep(rows, rows.buffer_info()[0], (len(listed), 2 * reach + 1), device)
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a stof.RelativeBias is neither copied nor pickled: any number of threads may use one, and its values make another")

    def __repr__(self) -> str:
        return f"RelativeBias(heads={self.heads}, reach={self.reach})"

    def _keep(self, numbers: Any, address: int, shape: tuple[int, ...], device: Any) -> None:
        """numbers: what has to live until they are copied."""
        if len(shape) != 2 or shape[0] == 0 or shape[1] % 2 == 0:
            raise InvalidArgument(2, f"values {list(shape)}; accepted: [heads, 2 reach + 1], an odd number for each head")
        self.heads, self.reach = shape[0], shape[1] // 2
        self.handle = library().relative_bias(address, self.heads, self.reach, device_name(device))
        weakref.finalize(self, library().library.stof_relative_bias_destroy, self.handle)
        del numbers


def _in_order(name: str, numbers: Any, accepted: str) -> list[Any]:
    """Of what has an order."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(numbers, torch.Tensor):
        refuse_recording(torch, name)
        refuse_gradients(torch, numbers, name)
    try:
        if isinstance(numbers, (str, bytes, Mapping, Set)):
            raise TypeError
        return list(numbers)
    except TypeError:  # an array of no dimensions as well
        raise InvalidArgument(2, f"{name} is of type {type(numbers).__name__}; accepted: {accepted}") from None


def _as_f32(values: Any) -> tuple[Any, int, tuple[int, ...]]:
    """Contiguous on the host: what has to live, its address and its shape."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(values, torch.Tensor):
        values = _of_torch(torch, values)
    elif numpy is not None and isinstance(values, numpy.ndarray):
        values = _of_numpy(numpy, values)
    elif not hasattr(values, "__array_interface__"):
        return _of_sequences(values)
    of = view(values, "values", (F32,))
    apart = len(of.shape) == 2 and any(length > 1 and step != dense for length, step, dense in zip(of.shape, of.strides, (of.shape[1], 1)))
    if of.dtype != F32 or apart:
        raise InvalidArgument(2, f"values {list(of.shape)} of {name_of(of.dtype)} with strides {list(of.strides)}; accepted: f32, contiguous")
    return of, of.address, of.shape


def _of_torch(torch: Any, values: Any) -> Any:
    refuse_recording(torch, "values")
    refuse_gradients(torch, values, "values")
    if values.is_complex() or values.layout != torch.strided or values.is_nested:
        return values  # which is refused as other tensors are
    if values.device.type == "meta":
        raise InvalidArgument(2, "values is on meta, where there are no numbers; accepted: a tensor of the CPU or of a GPU")
    return values.to("cpu", torch.float32).resolve_neg().contiguous()


def _of_numpy(numpy: Any, values: Any) -> Any:
    if values.dtype.kind not in "fiub" or isinstance(values, numpy.ma.MaskedArray):
        return values
    with numpy.errstate(over="ignore"):  # what is too large the library refuses
        return numpy.ascontiguousarray(values, numpy.float32)


def _of_sequences(values: Any) -> tuple[Any, int, tuple[int, ...]]:
    accepted = "torch.Tensor, numpy.ndarray, sequences of as many numbers for each head"
    rows = [_in_order(f"values[{h}]", row, accepted) for h, row in enumerate(_in_order("values", values, accepted))]
    widths = {len(row) for row in rows}
    if len(widths) > 1:
        raise InvalidArgument(2, f"values has rows of {' and '.join(map(str, sorted(widths)))} numbers; accepted: as many for each head")
    flat = array("f", (number(f"values[{h}][{i}]", one) for h, row in enumerate(rows) for i, one in enumerate(row)))
    return flat, flat.buffer_info()[0], (len(rows), widths.pop() if widths else 0)
