#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lengths and offsets that libstof.so reads where the plan's device does: against the definition, and in graphs that are
replayed after they have changed.

usage: lengths_test.py LIBSTOF.SO cpu|cuda    exit status 77 when the device is not there
"""

import struct
import unittest

import c_library
from c_library import F16, F32
from given import DEVICE, MEMORY, STOF, Plans
from memory import pack, pack_i32
from problem import UNTOUCHED, Problem

MASKS = {
    "causal & window(5)": lambda b, h, p, j: j <= p and p - j <= 5,
    "window(3) | global(2)": lambda b, h, p, j: abs(p - j) <= 3 or p < 2 or j < 2,
}
KERNELS = ("auto",) if DEVICE == "cpu" else (
    "row_attention", "stream_attention", "band_attention", "gather_attention", "mma_attention")  # fmt: skip


class Lengths(Plans):
    def status(self, call):
        return struct.unpack("<2i", call.kept["status"].read())

    def test_every_kernel(self):
        lengths = [(70, 70), (3, 7), (0, 5), (9, 9), (65, 66)]
        for kernel in KERNELS:
            for packed in (False, True):
                for order in ("bhsd", "bshd"):
                    for text, allowed in MASKS.items():
                        with self.subTest(kernel=kernel, packed=packed, order=order, mask=text):
                            problem = Problem(batch=5, queries=70, keys=70, lengths=lengths, packed=packed, order=order,
                                              dtype=F32 if DEVICE == "cpu" else F16)  # fmt: skip
                            plan = self.plan_by(kernel, text, problem)
                            if plan is None:
                                continue
                            call = problem.on_with_lists(MEMORY)
                            STOF.run(plan, call)
                            self.assertLess(problem.worst(call, allowed), 1)
                            self.assertEqual(self.status(call), (0, -1))

    def test_pages(self):
        lengths = [(70, 70), (3, 7), (0, 5), (9, 9), (65, 66)]
        for kernel in KERNELS:
            for packed in (False, True):
                for text, allowed in MASKS.items():
                    with self.subTest(kernel=kernel, packed=packed, mask=text):
                        problem = Problem(batch=5, queries=70, keys=70, lengths=lengths, packed=packed, page_size=16,
                                          dtype=F32 if DEVICE == "cpu" else F16)  # fmt: skip
                        plan = self.plan_by(kernel, text, problem)
                        if plan is None:
                            continue
                        call = problem.on_with_lists(MEMORY)
                        STOF.run(plan, call)
                        self.assertLess(problem.worst(call, allowed), 1)
                        self.assertEqual(self.status(call), (0, -1))

    def test_packed_queries_over_full_pages(self):
        lengths = [(20, 32), (0, 32), (32, 32)]
        for kernel in KERNELS:
            with self.subTest(kernel=kernel):
                problem = Problem(batch=3, queries=32, keys=32, lengths=lengths, packed=True, page_size=16, dtype=F16)
                plan = self.plan_by(kernel, "causal & window(5)", problem)
                if plan is None:
                    continue
                call = problem.on_with_lists(MEMORY)
                call.device_kv_lengths = None
                STOF.run(plan, call)
                self.assertLess(problem.worst(call, MASKS["causal & window(5)"]), 1)
                self.assertEqual(self.status(call), (0, -1))

    @unittest.skipUnless(DEVICE == "cuda", "graphs are of CUDA")
    def test_a_graph_follows_them(self):
        for kernel in KERNELS:
            for packed in (False, True):
                for page_size in (0, 64):
                    with self.subTest(kernel=kernel, packed=packed, page_size=page_size):
                        self.replay(kernel, packed, page_size)

    def replay(self, kernel, packed, page_size):
        text, allowed = "causal & window(5)", MASKS["causal & window(5)"]
        make = lambda lengths: Problem(batch=3, queries=300, keys=300, heads=2, kv_heads=1, d=64, lengths=lengths,
                                       packed=packed, page_size=page_size, dtype=F16, order="bshd")  # fmt: skip
        first = make([(300, 300), (300, 300), (300, 300)])
        plan = self.plan_by(kernel, text, first)
        if plan is None:
            return
        call = first.on_with_lists(MEMORY)
        size = STOF.workspace_size(plan)
        workspace = MEMORY.allocate(b"\xff" * size)
        call.workspace, call.workspace_bytes = workspace.address if size else None, size
        call.stream = MEMORY.stream().value
        STOF.run(plan, call)
        launch = MEMORY.recorded(call.stream, lambda: STOF.run(plan, call))
        for lengths in ([(300, 300), (1, 1), (64, 64)], [(0, 0), (300, 300), (129, 129)], [(7, 7), (0, 0), (0, 0)],
                        [(300, 300), (300, 300), (299, 299)]):  # fmt: skip
            problem = make(lengths)
            self.put(problem, call)
            launch()
            self.assertLess(problem.worst(call, allowed), 1, lengths)
            self.assertEqual(self.status(call), (0, -1))

    @unittest.skipUnless(DEVICE == "cuda", "graphs are of CUDA")
    def test_a_graph_follows_them_where_most_row_blocks_have_no_rows(self):
        """There is room for few of the rows that items may have, so that those that there are come by a list."""
        items, allowed = 48, MASKS["causal & window(5)"]
        make = lambda lengths: Problem(batch=items, queries=4096, keys=4096, heads=4, kv_heads=2, d=8, packed=True,
                                       lengths=[(n, n) for n in lengths], dtype=F16, order="bshd")  # fmt: skip
        first = make([20] * items)
        plan = self.plan_by("stream_attention", "causal & window(5)", first)
        if plan is None:
            return
        call = first.on_with_lists(MEMORY)
        call.stream = MEMORY.stream().value
        STOF.run(plan, call)
        launch = MEMORY.recorded(call.stream, lambda: STOF.run(plan, call))
        for lengths in ([0] * (items - 1) + [900], [0] * items, [150, 3] + [0, 1] * 23, [700] + [0] * 46 + [64], [20] * items):
            problem = make(lengths)
            self.put(problem, call)
            launch()
            self.assertLess(problem.worst(call, allowed), 1, lengths)
            self.assertEqual(self.status(call), (0, -1))

    def put(self, problem, call):
        """The problem's tensors and lists, in the memory of a call of a problem that is no smaller."""
        there = problem.on(MEMORY)
        for name in ("q", "k", "v"):
            call.kept[name].write(there.kept[name].read().ljust(call.kept[name].size, b"\xff"))  # NaN behind them
        if problem.page_size:
            call.kept["page_table"].write(there.kept["page_table"].read())
        call.kept["out"].write(pack([UNTOUCHED] * (call.kept["out"].size // 2), F16))
        call.kept["lse"].write(pack([UNTOUCHED] * (call.kept["lse"].size // 4), F32))
        for name, numbers in problem.lists().items():
            call.kept[name].write(pack_i32(numbers))
        MEMORY.synchronize()

    def test_no_rows_and_no_items(self):
        for kernel in KERNELS:
            for packed, field in ((False, None), (False, "queries"), (False, "batch"), (True, None)):
                with self.subTest(kernel=kernel, packed=packed, field=field):
                    problem = Problem(batch=2, queries=70, keys=70, lengths=[(0, 5), (0, 0)], packed=packed, dtype=F16)
                    plan = self.plan_by(kernel, "causal & window(5)", problem)
                    if plan is None:
                        continue
                    call = problem.on_with_lists(MEMORY)
                    if field:
                        setattr(call, field, 0)
                    STOF.run(plan, call)
                    self.assertLess(problem.worst(call, MASKS["causal & window(5)"]), 1)
                    self.assertEqual(self.status(call), (0, -1))

    def test_lists_that_cannot_be(self):
        lengths = [(70, 70), (0, 0), (0, 0)]
        for kernel in KERNELS:
            for packed, page_size in ((False, 0), (True, 0), (True, 16)):
                with self.subTest(kernel=kernel, packed=packed, page_size=page_size):
                    problem = Problem(batch=3, queries=70, keys=70, lengths=lengths, packed=packed, page_size=page_size,
                                      dtype=F16)  # fmt: skip
                    plan = self.plan_by(kernel, "causal & window(5)", problem)
                    if plan is None:
                        continue
                    call = problem.on_with_lists(MEMORY)
                    name, numbers, message = (
                        ("device_kv_lengths", (70, 71, -1), "attention: device_kv_lengths of item 1 is 71; accepted: 0..70") if page_size else
                        ("device_cu_kv", (0, 70, 71, 60), "attention: device_cu_kv falls from 71 to 60 at offset 3") if packed else
                        ("device_q_lengths", (70, 71, -1), "attention: device_q_lengths of item 1 is 71; accepted: 0..70"))  # fmt: skip
                    call.kept[name] = MEMORY.allocate(pack_i32(numbers))
                    setattr(call, name, call.kept[name].address)
                    if DEVICE == "cpu":
                        with self.assertRaises(c_library.Failure) as failed:
                            STOF.run(plan, call)
                        self.assertEqual(failed.exception.text, message)
                        continue
                    STOF.run(plan, call)
                    self.assertLess(problem.worst(call, MASKS["causal & window(5)"]), 1)
                    self.assertEqual(self.status(call), (2, 1))


if __name__ == "__main__":
    unittest.main()
