#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Masks that come as tables through libstof.so, against their definition; on a GPU also from a recorded graph.

usage: table_test.py LIBSTOF.SO cpu|cuda    exit status 77 when the device is not there
"""

import random
import struct
import unittest

from c_library import F16, F32, TABLE_BITS, TABLE_BLOCKS, TABLE_LISTS, TABLE_PACKED
from given import DEVICE, MEMORY, STOF, Plans
from problem import Problem

BATCH, HEADS, QUERIES, KEYS, WIDTH = 2, 2, 140, 200, 3
ROWS, BLOCKS = 3, 4  # of 64 queries and keys


class Contents:
    """Random contents of one table for each item and head."""

    def __init__(self, kind, seed):
        rng = random.Random(seed)
        self.kind = kind
        rows, columns = {TABLE_LISTS: (ROWS, WIDTH), TABLE_BLOCKS: (ROWS, BLOCKS), TABLE_BITS: (QUERIES, KEYS),
                         TABLE_PACKED: (QUERIES, (KEYS + 7) // 8)}[kind]  # fmt: skip
        self.strides = (HEADS * rows * columns, rows * columns, columns)
        least, end = {TABLE_LISTS: (-1, BLOCKS + 1), TABLE_PACKED: (0, 256)}.get(kind, (0, 2))
        self.values = [rng.randrange(least, end) for _ in range(BATCH * self.strides[0])]

    @property
    def data(self):
        return struct.pack(f"<{len(self.values)}{'i' if self.kind == TABLE_LISTS else 'B'}", *self.values)

    def row(self, b, h, row):
        first = b * self.strides[0] + h * self.strides[1] + row * self.strides[2]
        return self.values[first : first + self.strides[2]]

    def allows(self, b, h, position, key):
        row = position - (KEYS - QUERIES)
        if self.kind == TABLE_BITS:
            return self.row(b, h, row)[key] != 0
        if self.kind == TABLE_PACKED:
            return self.row(b, h, row)[key // 8] >> key % 8 & 1 != 0
        entries = self.row(b, h, row // 64)
        return key // 64 in entries if self.kind == TABLE_LISTS else entries[key // 64] != 0


def problem():
    return Problem(batch=BATCH, heads=HEADS, kv_heads=1, queries=QUERIES, keys=KEYS, d=64 if DEVICE == "cuda" else 16,
                   dtype=F16 if DEVICE == "cuda" else F32)  # fmt: skip


class Tables(Plans):
    def plan_of(self, kind, shape, limit=None):
        mask = self.parse(limit) if limit else None
        plan = STOF.table_plan(shape, mask, DEVICE, kind=kind, batch=BATCH, heads=HEADS, width=WIDTH)
        self.addCleanup(STOF.library.stof_plan_destroy, plan)
        return plan

    def test_every_kind_with_and_without_a_limit(self):
        causal = lambda b, h, position, key: key <= position
        for kind in (TABLE_LISTS, TABLE_BLOCKS, TABLE_BITS, TABLE_PACKED):
            for limit in (None, "causal"):
                with self.subTest(kind=kind, limit=limit):
                    given, contents = problem(), Contents(kind, kind + 1)
                    plan = self.plan_of(kind, given.shape, limit)
                    there, status = MEMORY.allocate(contents.data), MEMORY.allocate(b"?" * 12)
                    STOF.update(plan, there.address, contents.strides, status.address)
                    call = given.on(MEMORY)
                    STOF.run(plan, call)
                    allowed = lambda *at: contents.allows(*at) and (limit is None or causal(*at))
                    self.assertLess(given.worst(call, allowed), 1)
                    dropped, most, ignored = struct.unpack("<3i", status.read())
                    self.assertEqual((dropped, ignored), (0, contents.values.count(BLOCKS) if kind == TABLE_LISTS else 0))
                    self.assertLessEqual(most, BLOCKS)

    def first_run(self, given, there, strides):
        """A call with a workspace, and what updates and runs a plan that has done neither yet."""
        plan, call = self.plan_of(TABLE_LISTS, given.shape, "causal"), given.on(MEMORY)
        call.kept["workspace"] = workspace = MEMORY.allocate(bytes(STOF.workspace_size(plan)))
        call.workspace, call.workspace_bytes = workspace.address, workspace.size
        call.stream = MEMORY.stream().value

        def work():
            STOF.update(plan, there.address, strides, None, call.stream)
            STOF.run(plan, call)

        return call, work

    def test_a_recorded_plan_and_run_take_new_contents(self):
        if DEVICE != "cuda":
            self.skipTest("graphs are CUDA's")
        given, contents = problem(), Contents(TABLE_LISTS, 5)
        there = MEMORY.allocate(contents.data)
        self.assertTrue(MEMORY.keeps_memory(lambda: self.first_run(given, there, contents.strides)[1]))
        call, work = self.first_run(given, there, contents.strides)
        replay = MEMORY.recorded(call.stream, work)
        for seed in (5, 6, 7):
            contents = Contents(TABLE_LISTS, seed)
            there.write(contents.data)
            replay()
            MEMORY.synchronize()
            self.assertLess(given.worst(call, lambda b, h, p, j: j <= p and contents.allows(b, h, p, j)), 1)


if __name__ == "__main__":
    unittest.main()
