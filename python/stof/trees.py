# SPDX-License-Identifier: Apache-2.0
"""Draft trees of speculative decoding: which of its own item's queries each query may see, as bits in words of 32."""

from __future__ import annotations

import sys
from typing import Any

from stof.arrays import View, name_of, view
from stof.c_library import BOOL, I32, InvalidArgument
from stof.recorded import outside_of_later_graphs

_BITS = 32  # of a word


@outside_of_later_graphs
def pack_tree(tree: Any) -> Any:
    """int32 words [..., T, ceil(T / 32)] of a bool array or tensor [..., T, T], on its device: bit j % 32 of word j // 32
    of row i is element [i, j]. On a GPU it can be recorded into a graph."""
    of = view(tree, "tree", (BOOL,))
    if of.dtype != BOOL or len(of.shape) < 2 or of.shape[-1] != of.shape[-2] or of.shape[-1] == 0:
        raise InvalidArgument(2, f"tree {list(of.shape)} of {name_of(of.dtype)}; accepted: bool [..., T, T] with T of at least 1")
    return _packed_tensor(tree) if _is_tensor(tree) else _packed_array(tree)


@outside_of_later_graphs
def tree_of_parents(parents: Any) -> Any:
    """Words as pack_tree makes them, of the tree in which query i is a child of query parents[i]: each sees itself and its
    ancestors. `parents` is an int32 or int64 array or tensor [T] or [B, T]; -1 is a root, others are earlier than the
    child. On the host others are refused; on a GPU, whose numbers the host does not wait for, such a query is taken for a
    root. There it can be recorded into a graph, whose replays follow the parents."""
    _check_parents(parents)
    return _of_parents_tensor(parents) if _is_tensor(parents) else _of_parents_array(parents)


def words_of(tree: Any, batch: int, most: int, device: str) -> View:
    """Of what a call of `batch` items brings, whose plan is for trees of up to `most` queries. Words stay where they are."""
    if most == 0:
        raise InvalidArgument(2, "tree with a plan of tree_queries = 0; accepted where Attention(..., tree_queries=T) says that trees will come")
    of = view(tree, "tree", (BOOL, I32))
    count = of.shape[-2] if len(of.shape) in (2, 3) else 0
    columns = count if of.dtype == BOOL else -(-count // _BITS)
    items_fit = len(of.shape) == 2 or (len(of.shape) == 3 and of.shape[0] in (1, batch))
    if of.dtype not in (BOOL, I32) or not 1 <= count <= most or of.shape[-1] != columns or not items_fit or of.device != device:
        raise InvalidArgument(2, f"tree {list(of.shape)} of {name_of(of.dtype)} on {of.device}; accepted: bool [T, T] or i32 [T, ceil(T / 32)] with T of "
                                 f"1..{most}, or {batch} or 1 of them, on {device}")  # fmt: skip
    if of.dtype == BOOL:
        return view(_packed_tensor(tree) if _is_tensor(tree) else _packed_array(tree), "tree")
    if of.shape[-1] > 1 and of.strides[-1] != 1:
        raise InvalidArgument(2, f"tree has strides {list(of.strides)}; accepted: any whose last is 1")
    return of


def _is_tensor(array: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def _packed_tensor(tree: Any) -> Any:
    import torch

    padded = torch.nn.functional.pad(tree != 0, (0, -tree.shape[-1] % _BITS)).unflatten(-1, (-1, _BITS))
    # Each bit once, so that sums of int32 do not overflow: bit 31 alone is negative.
    places = torch.arange(_BITS, dtype=torch.int32, device=tree.device)
    return (padded.int() << places).sum(-1, dtype=torch.int32)


def _packed_array(tree: Any) -> Any:
    import numpy

    array = numpy.asarray(tree)
    room = [(0, 0)] * (array.ndim - 1) + [(0, -array.shape[-1] % _BITS)]
    return numpy.ascontiguousarray(numpy.packbits(numpy.pad(array, room), axis=-1, bitorder="little")).view("<i4")


def _check_parents(parents: Any) -> None:
    """What can be known without waiting for a GPU."""
    if not _is_tensor(parents) and not hasattr(parents, "__array_interface__"):
        raise InvalidArgument(2, f"parents is of type {type(parents).__name__}; accepted: torch.Tensor, numpy.ndarray")
    dtype = str(parents.dtype).removeprefix("torch.")
    if parents.ndim not in (1, 2) or parents.shape[-1] == 0 or dtype not in ("int32", "int64"):
        raise InvalidArgument(2, f"parents {list(parents.shape)} of {dtype}; accepted: int32 or int64 [T] or [B, T]")
    if _is_tensor(parents):
        if parents.device.type != "cpu":
            return
        from torch import arange
    else:
        from numpy import arange
    count = parents.shape[-1]
    wrong = (parents < -1) | (parents >= arange(count))
    if wrong.any():
        item, child = divmod(wrong.reshape(-1).tolist().index(True), count)
        place = [item, child][2 - parents.ndim :]
        raise InvalidArgument(2, f"parents{place} is {int(parents[tuple(place)])}; accepted: -1 for a root, or a query before {child}")


def _of_parents_array(parents: Any) -> Any:
    import numpy

    count = parents.shape[-1]
    of_items = parents.reshape(-1, count)
    items = numpy.arange(len(of_items))
    seen = numpy.zeros((len(items), count + 1, count), bool)  # the last row: what the parent of a root, at -1, sees
    for child in range(count):  # whose parent has been
        seen[:, child] = seen[items, of_items[:, child]]
        seen[:, child, child] = True
    return _packed_array(seen[:, :count].reshape(*parents.shape, count))


def _of_parents_tensor(parents: Any) -> Any:
    import torch

    count, device = parents.shape[-1], parents.device
    # One row more, of what roots are children of: it sees nothing, and is its own parent.
    above = torch.nn.functional.pad(parents.long(), (0, 1), value=-1)
    above = above.masked_fill((above < 0) | (above >= torch.arange(count + 1, device=device)), count)
    seen = _packed_tensor(torch.eye(count + 1, count, dtype=torch.bool, device=device))
    seen = seen.expand(*above.shape, -1)
    for _ in range((count - 1).bit_length()):  # itself and the 2^n - 1 nearest ancestors, `above` the one 2^n up
        seen = seen | seen.gather(-2, above[..., None].expand_as(seen))
        above = above.gather(-1, above)
    return seen[..., :count, :]
