# SPDX-License-Identifier: Apache-2.0
"""Attention under a mask: planned once for a shape, run often, on the arrays where they lie."""

from __future__ import annotations

import ctypes
import functools
import json
import operator
import weakref
from collections.abc import Callable, Mapping, Set
from typing import Any

from stof import c_library
from stof.arrays import NAMES, View, device_name, empty_like, float_dtype, name_of, stream_of, view
from stof.c_library import InvalidArgument
from stof.given_numbers import MOST, whole
from stof.interrupt import interruptible
from stof.library import library
from stof.mask import Mask, mask_of
from stof.memory import refuse_shared
from stof.recorded import outside_of_later_graphs
from stof.relative_bias import RelativeBias
from stof.trees import words_of

_DECODED = 16  # as many queries at most
_MOST = 2**31 - 1  # of a length or an offset
_PADDED, _PACKED = (0, 1, 2), (None, 1, 0)  # of [items, heads, rows, d] and [rows, heads, d]: items, heads, rows


class Attention:
    """A plan: the mask, measured and packed for the kernel that was chosen for this shape on this device. `queries` and
    `keys` are those of the longest item; query i of N stands at position i + M - N among M keys. `dtype` is "f32", "f16"
    or "bf16", `device` "cpu", "cuda", "cuda:N" or "auto", or they are PyTorch's; `capped` says that calls will bring a
    softcap, `tree_queries` that they will bring draft trees of up to so many queries, `biased` that they will bring a
    relative bias, or none. Any number of threads may run it. It serves shorter items whose keys - queries is no less than planned;
    `prepare` adds others."""

    def __init__(self, mask: Mask | str | Callable[..., Any], *, batch: int, heads: int, queries: int, keys: int, head_dim: int,
                 kv_heads: int | None = None, dtype: Any = "f16", device: Any = "auto", capped: bool = False,
                 kernel: str | None = None, tree_queries: int = 0, biased: bool = False):  # fmt: skip
        of_plan = mask_of(mask)  # has to live as long as its handle is used
        shape = self._shape(batch, heads, kv_heads, queries, keys, head_dim, dtype, capped, tree_queries, biased)
        if kernel is not None and not isinstance(kernel, str):
            raise InvalidArgument(2, f"kernel of type {type(kernel).__name__}; accepted: None, the name of one")
        with interruptible(library().library):
            self._keep(library().plan(of_plan.handle, shape, device_name(device), kernel))

    def _shape(self, batch: int, heads: int, kv_heads: int | None, queries: int, keys: int, head_dim: int, dtype: Any,
               capped: bool, tree_queries: int = 0, biased: bool = False) -> tuple[int, ...]:  # fmt: skip
        numbers = {"batch": batch, "heads": heads, "kv_heads": heads if kv_heads is None else kv_heads, "queries": queries, "keys": keys,
                   "head_dim": head_dim, "tree_queries": tree_queries}  # fmt: skip
        batch, heads, kv_heads, queries, keys, head_dim, tree_queries = (whole(name, value, -MOST) for name, value in numbers.items())
        self.heads, self.kv_heads, self.head_dim, self.tree_queries, self.dtype = heads, kv_heads, head_dim, tree_queries, float_dtype(dtype)
        self.biased = bool(biased)
        return batch, heads, kv_heads, queries, keys, head_dim, NAMES[self.dtype], bool(capped), tree_queries, self.biased

    def _keep(self, plan: c_library.P) -> None:
        self._plan = plan
        self._prepared: set[tuple[int, int]] = set()
        weakref.finalize(self, library().library.stof_plan_destroy, plan)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"a stof.{type(self).__name__} is neither copied nor pickled: any number of threads may run one, and its mask and shape make another")

    @property
    def description(self) -> dict[str, Any]:
        """Kernel, tiles, predicted time and every refusal, with the keys of `stof plan --json`."""
        return json.loads(library().library.stof_plan_description(self._plan))

    @outside_of_later_graphs
    def prepare(self, queries: int, keys: int) -> None:
        """Makes what items of so many queries and keys need, where the plan does not serve them yet."""
        queries, keys = whole("queries", queries, -MOST), whole("keys", keys, -MOST)
        if (queries, keys) not in self._prepared:
            with interruptible(library().library):
                library().prepare(self._plan, queries, keys)
            self._prepared.add((queries, keys))

    @outside_of_later_graphs
    def run(self, q: Any, k: Any, v: Any, *, out: Any = None, lse: Any = None, scale: float | None = None,
            softcap: float | None = None, q_lengths: Any = None, kv_lengths: Any = None, cu_q: Any = None, cu_kv: Any = None,
            page_table: Any = None, check_pages: bool = False, tree: Any = None, relative_bias: RelativeBias | None = None) -> Any:  # fmt: skip
        """out = softmax(scale q k^T, over the allowed keys) v, on the stream that PyTorch uses; scale is 1 / sqrt(D) unless
        given. Padded: q and out [B, H, N, D], k and v [B, Hkv, M, D], lse f32 [B, H, N], and lengths [B] where items are
        shorter. Packed: q and out [rows, H, D], k and v [rows, Hkv, D], lse f32 [H, rows], and offsets `cu_q`, `cu_kv`
        [B + 1]. Paged: k and v [pages, Hkv, page size, D], `page_table` i32 [B, pages of an item] and `kv_lengths`, with
        `cu_q` too. The last dimension is contiguous, the others have any strides. Lengths and offsets are sequences, or int32 arrays of
        the host or of the device; the latter are read when the kernels run. Rows without an allowed key give 0, and -inf
        as logarithm; rows behind an item's length, or behind the last offset, are not written: they are 0 where `out` is not given. `out` may be q, and
        shares no memory with k and v.

        `tree`, a draft tree of speculative decoding: bool [T, T], or [B, T, T] with one for each item; element [i, j] says
        whether query i may see the key of query j, the item's keys being its last ones, besides what the mask says. Or int32
        words of its bits, as pack_tree and tree_of_parents make them, which a recorded graph follows. Items of more than T
        queries know no tree; those of fewer use its first rows.

        `relative_bias`, of a plan that is `biased`: what is added to scores as they are scaled, and capped, by how far each
        key is from its query, whose positions are those that the mask sees. What was recorded into a graph reads it at each replay."""
        rows = _Rows(self, view(q, "q"), view(k, "k"), view(v, "v"), cu_q,
                     None if page_table is None else view(page_table, "page_table", (c_library.I32,)))  # fmt: skip
        to = empty_like(rows.q, rows.q.shape, zeros=rows.leaves_some(q_lengths, cu_q)) if out is None else out
        of_out = view(to, "out", written=True)
        call = rows.call(of_out, None if lse is None else view(lse, "lse", (c_library.F32,), written=True))
        if out is not None:
            refuse_shared(of_out, rows.q, rows.k, rows.v)
        lists = [_give(call, "q_lengths", q_lengths, rows.batch), _give(call, "kv_lengths", kv_lengths, rows.batch),
                 _give(call, "cu_q", cu_q, rows.batch + 1), _give(call, "cu_kv", cu_kv, rows.batch + 1)]  # fmt: skip
        call.scale, call.softcap = _number("scale", scale), _number("softcap", softcap)
        call.stream, call.check_pages = stream_of(rows.q), _truth("check_pages", check_pages)
        lists.append(_give_tree(call, tree, self.tree_queries, rows.q.device))
        call.relative_bias = _handle_of(relative_bias, self.biased)
        library().run(self._plan, call)
        del lists  # which had to live until here
        return to


class _Rows:
    """The tensors of a call, whose shapes fit each other and the plan."""

    def __init__(self, plan: Attention, q: View, k: View, v: View, cu_q: Any, table: View | None):
        self.q, self.k, self.v, self.table = q, k, v, table
        self.packed = cu_q is not None
        paged = table is not None
        self.of_q, self.of_k = _PACKED if self.packed else _PADDED, _PACKED if self.packed and not paged else _PADDED
        self.dtype = NAMES[plan.dtype]
        _expect(q, "q", "[rows, H, D]" if self.packed else "[B, H, N, D]", self.of_q, (plan.heads, plan.head_dim))
        wanted = "[pages, Hkv, page size, D]" if paged else "[rows, Hkv, D]" if self.packed else "[B, Hkv, M, D]"
        for one, name in ((k, "k"), (v, "v")):
            _expect(one, name, wanted, self.of_k, (plan.kv_heads, plan.head_dim))
        for one, name in ((q, "q"), (k, "k"), (v, "v")):
            if one.dtype != self.dtype or one.device != q.device:
                raise InvalidArgument(2, f"{name} is {name_of(one.dtype)} on {one.device}; accepted: {plan.dtype}, as planned, on {q.device}, where q is")
        self.batch = _length("cu_q", cu_q) - 1 if self.packed else q.shape[0]
        if self.batch < 0:
            raise InvalidArgument(2, "cu_q has 0 numbers; accepted: B + 1, one more than there are items, from 0 on")
        if v.shape != k.shape or not (paged or self.packed or k.shape[0] == self.batch):
            of_batch = "" if paged or self.packed else f", where B is {self.batch}"
            raise InvalidArgument(2, f"q {list(q.shape)}, k {list(k.shape)}, v {list(v.shape)}; accepted: k and v {wanted}, alike{of_batch}")
        self.queries, self.keys = q.shape[self.of_q[2]], k.shape[self.of_k[2]]
        if paged:
            if len(table.shape) != 2 or table.shape[0] != self.batch or table.dtype != c_library.I32 or table.device != q.device:
                raise InvalidArgument(2, f"page_table {list(table.shape)} of {name_of(table.dtype)} on {table.device}; accepted: i32 "
                                         f"[{self.batch}, pages of an item] on {q.device}")  # fmt: skip
            _contiguous(table, "page_table")
            self.keys *= table.shape[1]

    def leaves_some(self, q_lengths: Any, cu_q: Any) -> bool:
        """Whether there may be rows that belong to no item. Offsets of an array are not read here: it may lie on a GPU."""
        if q_lengths is not None or not self.packed:
            return q_lengths is not None
        return not (isinstance(cu_q, (list, tuple)) and self.batch >= 0 and (cu_q[0], cu_q[-1]) == (0, self.queries))

    def call(self, out: View, lse: View | None) -> c_library.Call:
        if out.shape != self.q.shape or out.dtype != self.dtype or out.device != self.q.device:
            raise InvalidArgument(2, f"out {list(out.shape)} of {name_of(out.dtype)} on {out.device}; accepted: {list(self.q.shape)}, dtype and device of q")
        _contiguous(out, "out")
        for one, name in ((out, "out"), (lse, "lse")):
            if one is not None and one.read_only:
                raise InvalidArgument(2, f"{name} may only be read")
        call = c_library.Call(ctypes.sizeof(c_library.Call), self.dtype, self.batch, self.queries, self.keys, self.q.tensor(self.of_q),
                              self.k.tensor(self.of_k), self.v.tensor(self.of_k), out.tensor(self.of_q))  # fmt: skip
        if lse is not None:
            shape = (self.q.shape[1], self.queries) if self.packed else self.q.shape[:3]
            if lse.shape != shape or lse.dtype != c_library.F32 or lse.device != self.q.device:
                raise InvalidArgument(2, f"lse {list(lse.shape)} of {name_of(lse.dtype)} on {lse.device}; accepted: f32 {list(shape)} on {self.q.device}")
            call.lse = lse.tensor((None, 0, 1) if self.packed else _PADDED)
        if self.table is not None:
            call.page_table, call.page_table_stride = self.table.address, self.table.strides[0]
            call.page_size, call.pages = self.k.shape[2], self.k.shape[0]
        return call


def _expect(of: View, name: str, wanted: str, order: tuple[int | None, int, int], heads_and_dim: tuple[int, int]) -> None:
    rank = 3 if order is _PACKED else 4
    if len(of.shape) != rank or (of.shape[order[1]], of.shape[-1]) != heads_and_dim:
        raise InvalidArgument(2, f"{name} is {list(of.shape)}; accepted: {wanted} with {heads_and_dim[0]} heads and D {heads_and_dim[1]}, as planned")
    _contiguous(of, name)


def _contiguous(of: View, name: str) -> None:
    if of.shape[-1] > 1 and of.strides[-1] != 1:
        raise InvalidArgument(2, f"{name} has strides {list(of.strides)}; accepted: any whose last is 1")


def _give(call: c_library.Call, name: str, values: Any, count: int) -> Any:
    """Lengths or offsets as the call takes them; what has to live until it returns."""
    if values is None:
        return None
    if hasattr(values, "__array_interface__") or hasattr(values, "data_ptr"):
        of = view(values, name, (c_library.I32,))
        if of.shape != (count,) or of.dtype != c_library.I32 or (count > 1 and of.strides != (1,)):
            raise InvalidArgument(2, f"{name} {list(of.shape)} of {name_of(of.dtype)}; accepted: i32 [{count}], contiguous")
        setattr(call, name if of.on_host() else "device_" + name, of.address)
        return of
    if _length(name, values) != count:
        raise InvalidArgument(2, f"{name} has {len(values)} numbers; accepted: {count}")
    listed = (ctypes.c_int32 * count)(*(_whole(name, i, values[i]) for i in range(count)))
    setattr(call, name, ctypes.addressof(listed))
    return listed


def _give_tree(call: c_library.Call, tree: Any, most: int, device: str) -> Any:
    """As the call takes it; what has to live until it returns."""
    if tree is None:
        return None
    of = words_of(tree, call.batch, most, device)
    call.tree, call.tree_queries = of.address, of.shape[-2]
    call.tree_row_stride = of.strides[-2]
    call.tree_batch_stride = of.strides[0] if len(of.shape) == 3 and of.shape[0] > 1 else 0
    return of


def _handle_of(bias: RelativeBias | None, biased: bool) -> c_library.P | None:
    if bias is None:
        return None
    if not isinstance(bias, RelativeBias):
        raise InvalidArgument(2, f"relative_bias is of type {type(bias).__name__}; accepted: None, a stof.RelativeBias")
    if not biased:
        raise InvalidArgument(2, "relative_bias with a plan for none; accepted where Attention(..., biased=True) says that one will come")
    return bias.handle


def _length(name: str, values: Any) -> int:
    try:
        if isinstance(values, (Mapping, Set)) or not hasattr(values, "__getitem__"):  # whose numbers have no order, or none by place
            raise TypeError
        return len(values)
    except TypeError:
        raise InvalidArgument(2, f"{name} is of type {type(values).__name__}; accepted: a sequence of integers, an array of int32") from None


def _whole(name: str, place: int, value: Any) -> int:
    """ctypes would take what does not fit 32 bits by its last ones."""
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if not 0 <= number <= _MOST:
        raise InvalidArgument(2, f"{name}[{place}] is {value!r}; accepted: integers from 0 to {_MOST}")
    return number


def _truth(name: str, value: Any) -> bool:
    if not (isinstance(value, int) or type(value).__name__ in ("bool", "bool_")):  # NumPy's too
        raise InvalidArgument(2, f"{name} is {value!r}, of type {type(value).__name__}; accepted: True, False")
    return bool(value)


def _number(name: str, value: Any) -> Any:
    """A pointer to it as the call has it, or None."""
    if value is None:
        return None
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        return ctypes.pointer(ctypes.c_float(float(value)))
    except OverflowError as error:
        raise InvalidArgument(2, f"{name}: {error}; accepted: a number") from None
    except (TypeError, ValueError):
        raise InvalidArgument(2, f"{name} is {value!r}, of type {type(value).__name__}; accepted: a number") from None


@functools.lru_cache(maxsize=128)
def planned(mask: Mask, **shape: Any) -> Attention:
    """As Attention, which it makes where none of the last 128 is that."""
    return Attention(mask, **shape)


def planned_for_more(mask: Mask, *, queries: int, keys: int, **shape: Any) -> Attention:
    """As planned. Of decoding, whose keys grow from call to call, a plan for the next power of two of them, which serves
    what comes before; not where the mask is another one for each length, or has arrays that fit these keys alone."""
    more = max(256, 1 << (keys - 1).bit_length())
    asked = (mask, queries, more, *shape.values())
    if queries <= _DECODED and queries < keys and not mask.depends_on_length and asked not in _for_fewer:
        try:
            plan = planned(mask, queries=queries, keys=more, **shape)
        except InvalidArgument:
            if len(_for_fewer) == 128:
                _for_fewer.clear()
            _for_fewer.add(asked)
        else:
            plan.prepare(queries, 1)
            return plan
    return planned(mask, queries=queries, keys=keys, **shape)


_for_fewer: set[tuple[Any, ...]] = set()  # masks and shapes without such a plan, which would else be tried anew for each token


@outside_of_later_graphs
def attention(q: Any, k: Any, v: Any, mask: Mask | str | Callable[..., Any] = "all", *, scale: float | None = None, softcap: float | None = None,
              out: Any = None, return_lse: bool = False, relative_bias: RelativeBias | None = None) -> Any:  # fmt: skip
    """softmax(scale q k^T, over the keys that `mask` allows) v for q [B, H, N, D] and k, v [B, Hkv, M, D] of NumPy or
    PyTorch; with `return_lse` also the logarithms of the sums, f32 [B, H, N]. Query i stands at position i + M - N, by which
    a `relative_bias` counts, too. The plan of the last 128 masks and shapes is kept (`clear_plans`); calls with lengths, offsets or pages: `Attention`."""
    of_q, of_k = view(q, "q"), view(k, "k")
    if len(of_q.shape) != 4 or len(of_k.shape) != 4:
        raise InvalidArgument(2, f"q {list(of_q.shape)}, k {list(of_k.shape)}; accepted: [B, H, N, D], [B, Hkv, M, D]")
    batch, heads, queries, dim = of_q.shape
    if of_q.dtype not in NAMES.values():
        raise InvalidArgument(2, f"q is of dtype {name_of(of_q.dtype)}; accepted: {', '.join(NAMES)}")
    plan = planned_for_more(mask_of(mask), batch=max(batch, 1), heads=heads, kv_heads=of_k.shape[1], queries=queries, keys=of_k.shape[2],
                   head_dim=dim, dtype=name_of(of_q.dtype), device=of_q.device, capped=softcap is not None,
                   biased=relative_bias is not None)  # fmt: skip
    given = {"out": out, "scale": scale, "softcap": softcap, "relative_bias": relative_bias}
    if not return_lse:
        return plan.run(q, k, v, **given)
    lse = empty_like(of_q, (batch, heads, queries), c_library.F32)
    return plan.run(q, k, v, lse=lse, **given), lse


def clear_plans() -> None:
    """Lets go of the plans that `attention` and models keep, and of their memory."""
    planned.cache_clear()
    _for_fewer.clear()
