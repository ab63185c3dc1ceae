# SPDX-License-Identifier: Apache-2.0
"""Random problems, their calls in any order of dimensions, and the definition of attention in double precision."""

import ctypes as c
import math
import random
import struct

import c_library
import memory

POISON = math.nan  # in every place that a call has no business to read
UNTOUCHED = 77.0  # in every place that it has none to write

# Distances from item to item, head to head, row to row, for so many heads and rows of d elements.
ORDERS = {
    "bhsd": lambda heads, rows, d: (heads * rows * d, rows * d, d),
    "bshd": lambda heads, rows, d: (rows * heads * d, d, heads * d),
    "gaps": lambda heads, rows, d: (heads * (rows * (d + 8) + 16), rows * (d + 8) + 16, d + 8),
}
TOLERANCE = {c_library.F32: 1e-5, c_library.F16: 2e-3, c_library.BF16: 1.6e-2}


class Problem:
    """batch items of heads x rows x d; with `lengths` [(queries, keys)] ragged, padded or packed."""

    def __init__(self, batch=2, heads=4, kv_heads=2, queries=24, keys=28, d=16, dtype=c_library.F32, order="bhsd",
                 lengths=None, packed=False, lse=True, scale=None, softcap=None, capped=False, seed=1, page_size=0,
                 values_order=None, tree_queries=0):  # fmt: skip
        self.batch, self.heads, self.kv_heads, self.d, self.dtype = batch, heads, kv_heads, d, dtype
        self.queries, self.keys, self.order, self.packed = queries, keys, order, packed
        self.values_order = values_order or order  # keys and values need not lie alike
        self.scale, self.softcap, self.capped, self.tree_queries = scale, softcap, capped, tree_queries
        self.ragged = lengths is not None
        self.lengths = lengths or [(queries, keys)] * batch
        self.with_lse = lse
        rng = random.Random(seed)
        numbers = lambda heads, rows: {
            (b, h, i): self.rounded([rng.gauss(0, 1) for _ in range(d)])
            for b in range(batch) for h in range(heads) for i in range(rows(b))}  # fmt: skip
        self.q = numbers(heads, lambda b: self.lengths[b][0])
        self.k = numbers(kv_heads, lambda b: self.lengths[b][1])
        self.v = numbers(kv_heads, lambda b: self.lengths[b][1])
        self.page_size = page_size
        if page_size:
            self.pages_of_item = -(-keys // page_size)
            self.pages = list(range(batch * self.pages_of_item + 2))  # two of no item
            rng.shuffle(self.pages)

    def rounded(self, values):
        return list(memory.unpack(memory.pack(values, self.dtype), self.dtype))

    @property
    def shape(self):
        """For a plan."""
        sizes = self.batch, self.heads, self.kv_heads, self.queries, self.keys, self.d
        return *sizes, self.dtype, self.capped, self.tree_queries

    def rows(self, side):
        """Rows in memory of each item, or of all together."""
        if self.packed:
            return sum(lengths[side] for lengths in self.lengths)
        return (self.queries, self.keys)[side]

    def starts(self, side):
        return [sum(lengths[side] for lengths in self.lengths[:b]) for b in range(self.batch + 1)]

    def distances(self, heads, side, d, order=None):
        return ORDERS[order or self.order](heads, self.rows(side), d)

    def place(self, key, strides, side):
        b, h, row = key
        if self.packed:
            return h * strides[1] + (self.starts(side)[b] + row) * strides[2]
        return b * strides[0] + h * strides[1] + row * strides[2]

    def laid_out(self, numbers, strides, side):
        values = [POISON] * max(1, (1 if self.packed else self.batch) * strides[0])
        for key, row in numbers.items():
            at = self.place(key, strides, side)
            values[at : at + self.d] = row
        return memory.pack(values, self.dtype)

    def table(self):
        """Rows of the page table; where an item has no keys, pages that there are not."""
        used = lambda b, page: page * self.page_size < self.lengths[b][1]
        return [self.pages[b * self.pages_of_item + page] if used(b, page) else 1 << 30
                for b in range(self.batch) for page in range(self.pages_of_item)]  # fmt: skip

    def pool(self, numbers, strides):
        values = [POISON] * (len(self.pages) * strides[0])
        table = self.table()
        for (b, h, key), row in numbers.items():
            page = table[b * self.pages_of_item + key // self.page_size]
            at = page * strides[0] + h * strides[1] + key % self.page_size * strides[2]
            values[at : at + self.d] = row
        return memory.pack(values, self.dtype)

    def add_pages(self, call, device):
        of_values = self.values_order if self.values_order != self.order else "bshd"
        for name, numbers, order in (("k", self.k, "bshd"), ("v", self.v, of_values)):
            strides = ORDERS[order](self.kv_heads, self.page_size, self.d)
            self.add(call, device, name, self.pool(numbers, strides), strides)
        table = self.table()
        call.kept["page_table"] = device.allocate(struct.pack(f"<{len(table)}i", *table))
        call.page_table, call.page_table_stride = call.kept["page_table"].address, self.pages_of_item
        call.page_size, call.pages, call.keys = self.page_size, len(self.pages), self.pages_of_item * self.page_size

    def on(self, device):
        """A Call whose tensors are on the device. It keeps them."""
        call = c_library.Call(struct_size=c.sizeof(c_library.Call), dtype=self.dtype, batch=self.batch,
                              queries=self.rows(0), keys=self.rows(1))  # fmt: skip
        call.kept = {}
        tensor = lambda name, bytes_, strides: self.add(call, device, name, bytes_, strides)
        of_queries, of_keys = (self.distances(heads, side, self.d) for heads, side in ((self.heads, 0), (self.kv_heads, 1)))
        of_values = self.distances(self.kv_heads, 1, self.d, self.values_order)
        tensor("q", self.laid_out(self.q, of_queries, 0), of_queries)
        if self.page_size:
            self.add_pages(call, device)
        else:
            tensor("k", self.laid_out(self.k, of_keys, 1), of_keys)
            tensor("v", self.laid_out(self.v, of_values, 1), of_values)
        size = call.kept["q"].size // memory.SIZES[self.dtype]
        tensor("out", memory.pack([UNTOUCHED] * size, self.dtype), of_queries)
        if self.with_lse:
            of_lse = self.distances(self.heads, 0, 1)
            tensor("lse", memory.pack([UNTOUCHED] * max(1, self.batch * of_lse[0]), c_library.F32), of_lse)
        if self.scale is not None:
            call.scale = c.pointer(c.c_float(self.scale))
        if self.softcap is not None:
            call.softcap = c.pointer(c.c_float(self.softcap))
        queries = "cu_q" if self.packed else "q_lengths"
        keys = "cu_kv" if self.packed and not self.page_size else "kv_lengths"
        for side, name in enumerate((queries, keys) if self.packed or self.ragged or self.page_size else ()):
            values = self.starts(side) if name.startswith("cu_") else [lengths[side] for lengths in self.lengths]
            call.kept[name] = (c.c_int32 * len(values))(*values)
            setattr(call, name, c.addressof(call.kept[name]))
        return call

    def lists(self):
        """Numbers of the items, by the names of a call's fields for lists on the device."""
        queries, keys = zip(*self.lengths)
        of_queries = {"device_cu_q": self.starts(0)} if self.packed else {"device_q_lengths": queries}
        if self.packed and not self.page_size:
            return of_queries | {"device_cu_kv": self.starts(1)}
        return of_queries | {"device_kv_lengths": keys}

    def on_with_lists(self, device):
        """A call that knows its lengths from lists on the device."""
        call = self.on(device)
        call.q_lengths = call.kv_lengths = call.cu_q = call.cu_kv = None
        for name, numbers in self.lists().items():
            call.kept[name] = device.allocate(memory.pack_i32(numbers))
            setattr(call, name, call.kept[name].address)
        call.kept["status"] = device.allocate(memory.pack_i32((-7, -7)))
        call.lengths_status = call.kept["status"].address
        return call

    def add(self, call, device, name, data, strides):
        call.kept[name] = device.allocate(data)
        setattr(call, name, c_library.Tensor(call.kept[name].address, *strides))

    def definition(self, allowed, key):
        """out and LSE of one row, in double precision; allowed(b, h, position, key)."""
        b, h, row = key
        n, m = self.lengths[b]
        kv = h * self.kv_heads // self.heads
        scale = 1 / math.sqrt(self.d) if self.scale is None else self.scale
        keys = [j for j in range(m) if allowed(b, h, row + m - n, j)]
        if not keys:
            return [0.0] * self.d, -math.inf
        scores = [scale * sum(x * y for x, y in zip(self.q[key], self.k[b, kv, j])) for j in keys]
        if self.softcap is not None:
            scores = [self.softcap * math.tanh(score / self.softcap) for score in scores]
        top = max(scores)
        weights = [math.exp(score - top) for score in scores]
        total = sum(weights)
        values = [self.v[b, kv, j] for j in keys]
        return [sum(w * v[i] for w, v in zip(weights, values)) / total for i in range(self.d)], top + math.log(total)

    def worst(self, call, allowed):
        """The largest difference from the definition, in units of the tolerance; infinite where a place that is not
        of a row was written."""
        found = list(memory.unpack(call.kept["out"].read(), self.dtype))
        logs = list(memory.unpack(call.kept["lse"].read(), c_library.F32)) if self.with_lse else None
        strides, lse_strides = self.distances(self.heads, 0, self.d), self.distances(self.heads, 0, 1)
        worst = 0.0
        for key in self.q:
            out, lse = self.definition(allowed, key)
            at = self.place(key, strides, 0)
            worst = max([worst] + [self.units(a, b, TOLERANCE[self.dtype]) for a, b in zip(found[at : at + self.d], out)])
            found[at : at + self.d] = [UNTOUCHED] * self.d
            if logs:
                at = self.place(key, lse_strides, 0)
                worst = max(worst, self.units(logs[at], lse, 1e-5 if self.dtype == c_library.F32 else 1e-3))
                logs[at] = UNTOUCHED
        untouched = self.rounded([UNTOUCHED])[0]
        return worst if all(x in (UNTOUCHED, untouched) for x in found + (logs or [])) else math.inf

    @staticmethod
    def units(found, expected, tolerance):
        if found == expected:
            return 0.0
        difference = abs(found - expected) / tolerance / max(1.0, abs(expected))
        return math.inf if math.isnan(difference) else difference
