# SPDX-License-Identifier: Apache-2.0
"""Arrays of NumPy and tensors of PyTorch as the library takes them: where they lie, never copied but for PyTorch's negative bit."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from stof import c_library
from stof.c_library import InvalidArgument
from stof.recorded import address_of, refuse_gradients, refuse_recording

NAMES = {"f32": c_library.F32, "f16": c_library.F16, "bf16": c_library.BF16}  # what attention computes with
_LONG_NAMES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}  # as dtypes of PyTorch and NumPy print
UINT8 = 5  # beside the dtypes of c_library, whose functions take none of this: bytes of 8 pairs, never bools
_NUMPY = {"<f4": c_library.F32, "<f2": c_library.F16, "<i4": c_library.I32, "|b1": c_library.BOOL, "|u1": UINT8}


@functools.cache
def _of_torch_dtypes(torch: Any) -> dict[Any, int]:
    return {torch.float32: c_library.F32, torch.float16: c_library.F16, torch.bfloat16: c_library.BF16,
            torch.int32: c_library.I32, torch.bool: c_library.BOOL, torch.uint8: UINT8}  # fmt: skip


def float_dtype(dtype: Any) -> str:
    """One of NAMES, as it is, or as PyTorch or NumPy call it."""
    name = _LONG_NAMES.get(str(dtype).removeprefix("torch."), dtype)
    if name not in NAMES:
        raise InvalidArgument(2, f"dtype {dtype!r}; accepted: {', '.join(NAMES)}")
    return name


def device_name(device: Any) -> str:
    """Of PyTorch's torch.device, too."""
    name = device if isinstance(device, str) else str(device) if type(device).__name__ == "device" else None
    if name is None:
        raise InvalidArgument(2, f"device {device!r}; accepted: cpu, cuda, cuda:N, auto, a torch.device")
    if "\0" in name:  # where C would take it to end
        raise InvalidArgument(2, f"device {name!r} has a 0 character; accepted: cpu, cuda, cuda:N, auto, a torch.device")
    return name


@dataclass(slots=True)
class View:
    """An array where it lies. strides: in elements. device: "cpu" or "cuda:N"."""

    of: Any  # the array itself, which has to live as long as the view is used
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: int  # of c_library, or UINT8
    device: str
    read_only: bool = False

    def on_host(self) -> bool:
        return self.device == "cpu"

    def tensor(self, order: tuple[int | None, int, int]) -> c_library.Tensor:
        """For a call: which of the dimensions are items (None where they are packed), heads and rows."""
        items, heads, rows = order
        strides = self.strides
        return c_library.Tensor(self.address, 0 if items is None else strides[items], strides[heads], strides[rows])

    def array(self) -> c_library.Array:
        """For a mask, which copies it."""
        rank = len(self.shape)
        size = ctypes.c_int64 * rank
        return c_library.Array(self.address, size(*self.shape), size(*self.strides), rank, self.dtype)


def view(array: Any, name: str, accepted: tuple[int, ...] = tuple(NAMES.values()), written: bool = False) -> View:
    """Of a tensor of PyTorch or of what has NumPy's array interface; `name` is what errors call it, `accepted` the dtypes that
    they name. What has another one of them is the caller's to refuse. `written`: the library writes it."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        refuse_recording(torch, name)
        return _of_torch(torch, _with_signs(array, name, written), name, accepted)
    if hasattr(array, "__array_interface__"):
        return _of_numpy(array, name, accepted)
    raise InvalidArgument(2, f"{name} is of type {type(array).__name__}; accepted: torch.Tensor, numpy.ndarray")


def view_of(array: Any, name: str, dtype: int) -> View:
    """Of a dtype and no other."""
    of = view(array, name, (dtype,))
    if of.dtype != dtype:
        raise InvalidArgument(2, f"{name} is of dtype {name_of(of.dtype)}; accepted: {name_of(dtype)}{_made_by((dtype,), hasattr(array, '__array_interface__'))}")
    return of


def empty_like(like: View, shape: tuple[int, ...], dtype: int | None = None, zeros: bool = False) -> Any:
    """Of the same kind and on the same device, contiguous, with any contents or with zeros."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(like.of, torch.Tensor):
        make = torch.zeros if zeros else torch.empty
        return make(shape, dtype=torch.float32 if dtype == c_library.F32 else like.of.dtype, device=like.of.device)
    import numpy

    make = numpy.zeros if zeros else numpy.empty
    return make(shape, numpy.float32 if dtype == c_library.F32 else like.of.__array_interface__["typestr"])


def floats(rows: int, columns: int) -> tuple[Any, int]:
    """f32 [rows, columns] to be written, and its address: an array of NumPy, or where that is not installed a memoryview."""
    try:
        import numpy
    except ImportError:
        data = (ctypes.c_float * max(1, rows * columns))()
        of_none = memoryview((ctypes.c_float * columns * 0)())  # cast() makes none without elements
        return memoryview(data).cast("B").cast("f", (rows, columns)) if rows else of_none, ctypes.addressof(data)
    array = numpy.empty((rows, columns), numpy.float32)
    return array, array.ctypes.data


def split(array: Any, lengths: Sequence[int]) -> list[Any]:
    """Of floats(): so many rows each, where they lie."""
    if not lengths:
        return []
    ends = list(accumulate(lengths, initial=0))
    if not isinstance(array, memoryview):
        return [array[begin:end] for begin, end in pairwise(ends)]
    columns = array.shape[1]
    flat, row = array.cast("B"), 4 * columns
    return [flat[row * begin : row * end].cast("f", (end - begin, columns)) for begin, end in pairwise(ends)]


def stream_of(like: View) -> int | None:
    """The stream that PyTorch puts its own work on; None on the CPU."""
    return None if like.on_host() else sys.modules["torch"].cuda.current_stream(like.of.device).cuda_stream


def _of_torch(torch: Any, tensor: Any, name: str, accepted: tuple[int, ...]) -> View:
    refuse_gradients(torch, tensor, name)
    device = tensor.device
    if device.type not in ("cpu", "cuda") or tensor.layout != torch.strided or tensor.is_nested:
        kind = "nested" if tensor.layout == torch.strided and tensor.is_nested else tensor.layout
        raise InvalidArgument(2, f"{name} is a tensor of device {device}, {kind}; accepted: strided ones of cpu or cuda")
    return View(tensor, address_of(tensor, name), tuple(tensor.shape), tensor.stride(), _known(_of_torch_dtypes(torch), tensor.dtype, name, accepted),
                "cpu" if device.type == "cpu" else f"cuda:{device.index}")  # fmt: skip


def _with_signs(tensor: Any, name: str, written: bool) -> Any:
    """A view like torch.conj(z).imag has its numbers in memory without their sign, and a bit that says so."""
    if not tensor.is_neg():
        return tensor
    if written:
        raise InvalidArgument(2, f"{name} has PyTorch's negative bit, so that what is written would be seen negated; accepted: tensors without it")
    return tensor.resolve_neg()


def _of_numpy(array: Any, name: str, accepted: tuple[int, ...]) -> View:
    masked = sys.modules.get("numpy.ma")
    if masked is not None and isinstance(array, masked.MaskedArray):  # whose numbers are there where it says that they are none
        raise InvalidArgument(2, f"{name} is a numpy.ma.MaskedArray, whose mask would not be heeded; accepted: numpy.ndarray, as its .filled() or .data")
    about = array.__array_interface__
    dtype, shape = _known(_NUMPY, about["typestr"], name, accepted), tuple(about["shape"])
    size = int(about["typestr"][2:])
    strides = about.get("strides") or tuple(size * _product(shape[i + 1 :]) for i in range(len(shape)))
    if any(step % size for step in strides):
        raise InvalidArgument(2, f"{name} has strides of {strides} bytes, of elements of {size}")
    address, read_only = about["data"]
    return View(array, address, shape, tuple(step // size for step in strides), dtype, "cpu", read_only)


def _known(dtypes: dict[Any, int], dtype: Any, name: str, accepted: tuple[int, ...]) -> int:
    if dtype not in dtypes:
        there = ", ".join(name_of(one) for one in accepted if one in dtypes.values())
        raise InvalidArgument(2, f"{name} is of dtype {dtype}; accepted: {there}{_made_by(accepted, dtypes is _NUMPY)}")
    return dtypes[dtype]


def _made_by(accepted: tuple[int, ...], of_numpy: bool) -> str:
    ways = {(c_library.I32,): (".astype('int32')", ".int()"), (c_library.BOOL,): (".astype(bool)", ".bool()")}.get(accepted)
    return "" if ways is None else f", as {ways[0 if of_numpy else 1]} makes it"


def name_of(dtype: int) -> str:
    return ("f32", "f16", "bf16", "i32", "bool", "uint8")[dtype]


def _product(numbers: tuple[int, ...]) -> int:
    product = 1
    for number in numbers:
        product *= number
    return product
