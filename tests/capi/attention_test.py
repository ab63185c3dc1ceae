#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attention through libstof.so, in a process that knows none of our headers, against its definition.

usage: attention_test.py LIBSTOF.SO cpu|cuda    exit status 77 when the device is not there
"""

import ctypes as c
import json
import struct
import threading
import unittest

import c_library
from c_library import BF16, BOOL, F16, F32, I32
from given import DEVICE, MEMORY, STOF, Plans
from problem import Problem

MASKS = {
    "all": lambda b, h, p, j: True,
    "none": lambda b, h, p, j: False,
    "causal": lambda b, h, p, j: j <= p,
    "causal & window(5)": lambda b, h, p, j: j <= p and p - j <= 5,
    "window(3) | global(2)": lambda b, h, p, j: abs(p - j) <= 3 or p < 2 or j < 2,
    "!strided(3) | sink(1)": lambda b, h, p, j: (p - j) % 3 != 0 or j < 1,
    "heads(0-1: causal, *: window(2))": lambda b, h, p, j: j <= p if h < 2 else abs(p - j) <= 2,
    "batch(0: causal, *: all)": lambda b, h, p, j: j <= p or b > 0,
}

KERNELS = ("row_attention", "block_attention") if DEVICE == "cpu" else (
    "row_attention", "stream_attention", "band_attention", "gather_attention", "mma_attention")  # fmt: skip
KERNELS_OF_FEW = KERNELS if DEVICE == "cpu" else (*KERNELS, "decode_attention")
OF_HOPPER = {"stream_attention", "band_attention", "gather_attention"}  # other GPUs may lack them, and no others


class Attention(Plans):
    def check(self, problem, plan, allowed):
        call = problem.on(MEMORY)
        STOF.run(plan, call)
        self.assertLess(problem.worst(call, allowed), 1)

    def by_every_kernel(self, kernels, text, problem):
        """Pairs of kernel and plan, for those that this device has."""
        plans = {kernel: self.plan_by(kernel, text, problem) for kernel in kernels}
        self.assertLessEqual({kernel for kernel, plan in plans.items() if plan is None}, OF_HOPPER)
        return [(kernel, plan) for kernel, plan in plans.items() if plan is not None]

    def test_masks_and_dtypes(self):
        for text, allowed in MASKS.items():
            for dtype in (F32, F16, BF16):
                with self.subTest(mask=text, dtype=dtype):
                    problem = Problem(dtype=dtype, seed=len(text))
                    self.check(problem, self.plan(text, problem), allowed)

    def test_orders_of_dimensions_and_grouped_heads(self):
        for order in ("bhsd", "bshd", "gaps"):
            for heads, kv_heads in ((4, 4), (6, 2), (3, 1)):
                for dtype in (F32, BF16):
                    with self.subTest(order=order, heads=heads, kv_heads=kv_heads, dtype=dtype):
                        problem = Problem(order=order, heads=heads, kv_heads=kv_heads, dtype=dtype)
                        self.check(problem, self.plan("causal", problem), MASKS["causal"])

    def test_every_kernel_that_takes_it(self):
        problem = Problem(dtype=F16, queries=70, keys=70)
        for kernel, plan in self.by_every_kernel(KERNELS, "causal & window(5)", problem):
            with self.subTest(kernel=kernel):
                self.assertEqual(json.loads(STOF.library.stof_plan_description(plan))["kernel"], kernel)
                self.check(problem, plan, MASKS["causal & window(5)"])

    def test_lengths(self):
        lengths = [(24, 28), (3, 7), (0, 5), (9, 9)]
        for packed in (False, True):
            for order in ("bhsd", "bshd"):
                with self.subTest(packed=packed, order=order):
                    problem = Problem(batch=4, lengths=lengths, packed=packed, order=order, dtype=F16)
                    plan = self.plan("window(3) | global(2)", problem)
                    for queries, keys in lengths:
                        STOF.prepare(plan, queries, keys)
                    self.check(problem, plan, MASKS["window(3) | global(2)"])

    def test_pages(self):
        lengths = [(3, 28), (1, 16), (2, 0), (3, 100)]
        for text in ("causal & window(5)", "all", "window(3) | global(2)"):
            for dtype in (F32, F16, BF16):
                for page_size in (16, 64, 128):
                    for packed in (False, True):
                        with self.subTest(mask=text, dtype=dtype, page_size=page_size, packed=packed):
                            problem = Problem(batch=4, queries=3, keys=128, lengths=lengths, packed=packed, dtype=dtype,
                                              page_size=page_size)  # fmt: skip
                            plan = self.plan(text, problem)
                            for queries, keys in lengths:
                                STOF.prepare(plan, queries, keys)
                            self.check(problem, plan, MASKS[text])

    def test_pages_for_every_kernel_that_takes_it(self):
        problem = Problem(batch=2, queries=2, keys=48, lengths=[(2, 48), (2, 33)], dtype=F16, page_size=16)
        for kernel, plan in self.by_every_kernel(KERNELS_OF_FEW, "causal & window(5)", problem):
            with self.subTest(kernel=kernel):
                STOF.prepare(plan, 2, 2)
                self.check(problem, plan, MASKS["causal & window(5)"])

    def test_a_page_that_there_is_not(self):
        problem = Problem(batch=2, queries=1, keys=48, dtype=F16, page_size=16)
        plan, call = self.plan("all", problem), problem.on(MEMORY)
        first = problem.table()[0]
        self.assertGreater(first, 0)
        call.check_pages, call.pages = 1, first
        with self.assertRaises(c_library.Failure) as failed:
            STOF.run(plan, call)
        self.assertEqual((failed.exception.status, failed.exception.text),
                         (2, f"attention: page 0 of item 0 is {first}; accepted: 0..{first - 1}"))  # fmt: skip

    def test_lengths_on_the_device(self):
        lengths = [(2, 28), (2, 0), (2, 100)]
        for page_size in (0, 16):
            problem = Problem(batch=3, queries=2, keys=128, lengths=lengths, dtype=F16, page_size=page_size)
            plan = self.plan("all", problem, kernel="auto" if DEVICE == "cpu" else "decode_attention")
            for keys in (1, 28, 100):
                STOF.prepare(plan, 2, keys)
            call = problem.on(MEMORY)
            on_device = MEMORY.allocate(struct.pack("<3i", *(keys for _, keys in lengths)))
            call.kv_lengths, call.device_kv_lengths = None, on_device.address
            STOF.run(plan, call)
            self.assertLess(problem.worst(call, MASKS["all"]), 1)

    def test_no_rows_and_no_keys(self):
        empty = Problem(queries=0, keys=5)
        self.check(empty, self.plan("all", empty), MASKS["all"])
        blind = Problem(queries=5, keys=0)
        self.check(blind, self.plan("all", blind), MASKS["all"])
        nobody = Problem(batch=0)
        self.check(nobody, self.plan("all", Problem()), MASKS["all"])

    def test_scale_and_no_lse(self):
        for dtype in (F32, F16, BF16):
            for scale in (0.3, 0.0, -0.5):
                for lse in (False, True):
                    with self.subTest(dtype=dtype, scale=scale, lse=lse):
                        problem = Problem(dtype=dtype, scale=scale, lse=lse)
                        self.check(problem, self.plan("causal", problem), MASKS["causal"])

    def test_scale_and_no_lse_by_every_kernel(self):
        for queries, kernels in ((40, KERNELS), (2, KERNELS_OF_FEW)):
            given = {"batch": 1, "queries": queries, "keys": 40, "dtype": F16}
            for kernel, plan in self.by_every_kernel(kernels, "causal & window(5)", Problem(**given)):
                for scale in (0.3, -0.5):
                    with self.subTest(kernel=kernel, scale=scale, queries=queries):
                        self.check(Problem(**given, scale=scale, lse=False), plan, MASKS["causal & window(5)"])

    def test_values_that_lie_otherwise_than_keys(self):
        lengths = [(24, 28), (3, 7)]
        for order, values_order in (("bhsd", "gaps"), ("bshd", "bhsd"), ("gaps", "bshd")):
            for given in ({}, {"lengths": lengths, "packed": True}, {"lengths": lengths, "page_size": 16}):
                problem = Problem(order=order, values_order=values_order, dtype=F16, **given)
                for kernel, plan in self.by_every_kernel(KERNELS, "causal & window(5)", problem):
                    with self.subTest(kernel=kernel, order=order, values_order=values_order, **given):
                        for queries, keys in problem.lengths:
                            STOF.prepare(plan, queries, keys)
                        self.check(problem, plan, MASKS["causal & window(5)"])

    def test_softcap(self):
        for dtype in (c_library.F32, c_library.F16, c_library.BF16):
            for softcap, capped in ((0.75, False), (0.75, True), (None, True)):  # whatever the plan is for
                problem = Problem(dtype=dtype, softcap=softcap, capped=capped)
                self.check(problem, self.plan("causal", problem), MASKS["causal"])

    def test_bits_in_memory(self):
        problem = Problem()
        cells = [(3 * i + i // 7) % 5 != 0 for i in range(24 * 28)]
        array = c_library.array(cells, (24, 28), BOOL)
        mask = STOF.mask("bits", array)
        self.addCleanup(STOF.library.stof_mask_destroy, mask)
        array.kept[:] = [0] * len(cells)  # the mask has its own copy
        self.check(problem, self.planned(mask, problem), lambda b, h, p, j: cells[(p - 4) * 28 + j])
        turned = c_library.array([cells[i % 24 * 28 + i // 24] for i in range(24 * 28)], (24, 28), BOOL, strides=(1, 24))
        same = STOF.mask("bits", turned)
        self.addCleanup(STOF.library.stof_mask_destroy, same)
        self.assertEqual(STOF.library.stof_mask_text(same), STOF.library.stof_mask_text(mask))

    def test_blocks_and_documents_in_memory_combined(self):
        problem = Problem(queries=28, keys=28)
        table = [(r + c_) % 3 != 1 for r in range(4) for c_ in range(4)]
        documents = [0] * 10 + [1] * 9 + [2] * 9
        parts = [STOF.mask("blocks", 7, c_library.array(table, (4, 4), BOOL)),
                 STOF.mask("document_ids", c_library.array(documents, (28,), I32)), STOF.parse("causal")]  # fmt: skip
        parts.append(STOF.mask("and", parts[0], parts[1]))
        parts.append(STOF.mask("not", parts[2]))
        parts.append(STOF.mask("or", parts[3], parts[4]))
        plan = self.planned(parts[-1], problem)
        for part in parts:
            STOF.library.stof_mask_destroy(part)
        self.check(problem, plan,
                   lambda b, h, p, j: table[p // 7 * 4 + j // 7] and documents[p] == documents[j] or j > p)  # fmt: skip

    def test_a_mask_that_depends_on_length_is_prepared_for_it(self):
        text, lengths = "where(q < 10) & bigbird(8, 1, 3, 1, 2)", [(24, 24), (11, 11)]
        problem = Problem(queries=24, keys=24, lengths=lengths)
        plan = self.plan(text, problem)
        call = problem.on(MEMORY)
        with self.assertRaises(c_library.Failure) as failed:
            STOF.run(plan, call)
        self.assertEqual((failed.exception.status, failed.exception.text),
                         (2, "attention: 11 queries and 11 keys need a plan of their own, which this call may not make; "
                             "prepare them"))  # fmt: skip
        STOF.prepare(plan, 11, 11)
        STOF.run(plan, call)
        alone = Problem(batch=1, queries=11, keys=11)
        alone.q, alone.k, alone.v = ({(0, h, i): row for (b, h, i), row in of.items() if b == 1}
                                     for of in (problem.q, problem.k, problem.v))  # fmt: skip
        single = alone.on(MEMORY)
        STOF.run(self.plan(text, alone), single)
        rows = lambda of, its, b: [its[of.place((b, h, i), of.distances(4, 0, 16), 0) + x]
                                   for h in range(4) for i in range(11) for x in range(16)]  # fmt: skip
        read = lambda its: memoryview(its.kept["out"].read()).cast("f")
        self.assertEqual(rows(problem, read(call), 1), rows(alone, read(single), 0))

    def test_decoding_with_one_plan(self):
        plan = self.plan("causal & window(5)", Problem(batch=1, queries=1, keys=40))
        STOF.prepare(plan, 1, 1)
        for keys in (40, 39, 17, 1):
            problem = Problem(batch=1, queries=1, keys=keys)
            self.check(problem, plan, MASKS["causal & window(5)"])

    def test_what_is_prepared_with_fewer_keys_than_queries_serves_all(self):
        text, most = "causal & window(5)", Problem(batch=1, queries=64, keys=100)
        all_items, some = self.plan(text, most), self.plan(text, most)
        STOF.prepare(all_items, 64, 1)
        STOF.prepare(some, 1, 1)
        for queries, keys in ((64, 100), (1, 100), (10, 20), (32, 32), (1, 1), (10, 5), (64, 30), (64, 1)):
            with self.subTest(queries=queries, keys=keys):
                problem = Problem(batch=1, queries=queries, keys=keys)
                self.check(problem, all_items, MASKS[text])
                if keys >= queries:
                    self.check(problem, some, MASKS[text])
                    continue
                with self.assertRaises(c_library.Failure) as failed:
                    STOF.run(some, problem.on(MEMORY))
                self.assertEqual((failed.exception.status, failed.exception.text),
                                 (2, f"attention: {queries} queries and {keys} keys need a plan of their own, which this call "
                                     "may not make; prepare them"))  # fmt: skip

    def test_description(self):
        found = json.loads(STOF.library.stof_plan_description(self.plan("causal", Problem(dtype=F16))))
        self.assertEqual(list(found), ["mask", "device", "shape", "layout", "kernel", "instance", "tiles", "splits", "stacked_heads",
                                       "residues", "predicted_us", "reason", "rest", "for_pages"])  # fmt: skip
        self.assertIsNone(found["for_pages"])
        plan = STOF.plan(STOF.parse("all"), (8, 32, 8, 6, 512, 64, F16), "cuda:h200")
        self.addCleanup(STOF.library.stof_plan_destroy, plan)
        of_few = json.loads(STOF.library.stof_plan_description(plan))
        self.assertEqual((of_few["kernel"], of_few["for_pages"]["kernel"]), ("stream_attention", "decode_attention"))
        self.assertEqual(found["mask"], "causal")
        self.assertEqual(found["shape"], {"batch": 2, "heads": 4, "kv_heads": 2, "queries": 24, "keys": 28,
                                          "head_dim": 16, "dtype": "f16", "capped": False, "tree_queries": 0, "biased": False})  # fmt: skip

    def test_one_plan_from_several_threads(self):
        problems = [Problem(seed=seed, dtype=F16, lengths=[(24, 28), (seed, seed)]) for seed in range(1, 5)]
        plan = self.plan("causal & window(5)", problems[0])
        calls = [problem.on(MEMORY) for problem in problems]
        wrong = []

        def work(call, seed):
            for _ in range(20):
                STOF.prepare(plan, seed, seed)
                STOF.run(plan, call)
                bad = c_library.Call(struct_size=seed)
                if STOF.library.stof_plan_run(plan, bad) != 2 or f"is {seed};" not in STOF.library.stof_last_error().decode():
                    wrong.append(seed)

        threads = [threading.Thread(target=work, args=(call, seed)) for seed, call in enumerate(calls, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        for problem, call in zip(problems, calls):
            self.assertLess(problem.worst(call, MASKS["causal & window(5)"]), 1)


@unittest.skipUnless(DEVICE == "cuda", "workspaces and graphs are of CUDA")
class OnStreams(Plans):
    def first_run(self, problem, text):
        """A call with a workspace, and what runs it with a plan that has not run yet."""
        plan, call = self.plan(text, problem), problem.on(MEMORY)
        size = STOF.workspace_size(plan)
        call.kept["workspace"] = MEMORY.allocate(b"\xff" * size)
        call.workspace, call.workspace_bytes = call.kept["workspace"].address, size
        call.stream = MEMORY.stream().value
        return call, lambda: STOF.run(plan, call)

    def test_a_graph_with_a_workspace_allocates_nothing(self):
        for text in ("causal", "causal & window(5)", "window(3) | global(2)"):
            with self.subTest(mask=text):
                problem = Problem(queries=300, keys=300, heads=2, kv_heads=1, d=16, dtype=F16, order="bshd")
                self.assertTrue(MEMORY.keeps_memory(lambda: self.first_run(problem, text)[1]))
                call, run = self.first_run(problem, text)
                launch = MEMORY.recorded(call.stream, run)
                for _ in range(2):
                    call.kept["out"].write(b"\0" * call.kept["out"].size)
                    call.kept["out"].write(problem.on(MEMORY).kept["out"].read())
                    launch()
                    self.assertLess(problem.worst(call, MASKS[text]), 1)

    def test_a_graph_follows_lengths_on_the_device(self):
        problem = Problem(batch=2, queries=1, keys=640, heads=4, kv_heads=2, d=64, dtype=F16, page_size=64)
        plan = self.plan("causal & window(5)", problem, kernel="decode_attention")
        STOF.prepare(plan, 1, 1)
        call = problem.on(MEMORY)
        on_device = MEMORY.allocate(struct.pack("<2i", 640, 640))
        call.kv_lengths, call.device_kv_lengths = None, on_device.address
        call.stream = MEMORY.stream().value
        STOF.run(plan, call)
        launch = MEMORY.recorded(call.stream, lambda: STOF.run(plan, call))
        for keys in (640, 639, 65, 1, 0):
            on_device.write(struct.pack("<2i", keys, 640))
            call.kept["out"].write(problem.on(MEMORY).kept["out"].read())
            MEMORY.synchronize()
            launch()
            problem.lengths = [(1, keys), (1, 640)]
            self.assertLess(problem.worst(call, MASKS["causal & window(5)"]), 1)

    def test_a_small_workspace_is_refused(self):
        problem = Problem(queries=300, keys=300, dtype=F16)
        plan, call = self.plan("causal", problem), problem.on(MEMORY)
        size = STOF.workspace_size(plan)
        workspace = MEMORY.allocate(bytes(size + 16))
        call.workspace = workspace.address
        for address, got, message in ((0, size - 1, f"attention: the workspace has {size - 1} bytes; this plan needs {size}"),
                                      (8, size, f"attention: the workspace is at {workspace.address + 8:#x}; accepted: a multiple of 16")):  # fmt: skip
            call.workspace, call.workspace_bytes = workspace.address + address, got
            with self.assertRaises(c_library.Failure) as failed:
                STOF.run(plan, call)
            self.assertEqual((failed.exception.status, failed.exception.text), (2, message))

    def test_memory_of_the_host_is_refused(self):
        problem = Problem(dtype=F16)
        plan, call = self.plan("causal", problem), problem.on(MEMORY)
        host = bytearray(1 << 16)
        call.q.data = c.addressof((c.c_char * len(host)).from_buffer(host))
        with self.assertRaises(c_library.Failure) as failed:
            STOF.run(plan, call)
        self.assertEqual((failed.exception.status, failed.exception.text),
                         (2, "attention: q is not memory of a GPU; this plan runs on cuda:0"))  # fmt: skip

    def test_memory_of_a_gpu_is_refused_on_the_host(self):
        problem = Problem()
        plan, call = STOF.plan(self.parse("causal"), problem.shape, "cpu"), problem.on(MEMORY)
        self.addCleanup(STOF.library.stof_plan_destroy, plan)
        ids = MEMORY.allocate(bytes(112))
        array = c_library.array([], (28,), I32)
        array.data = ids.address
        for work, message in ((lambda: STOF.run(plan, call), "stof_plan_run: call.q.data"),
                              (lambda: STOF.mask("document_ids", array), "stof_mask_document_ids: ids.data")):  # fmt: skip
            with self.assertRaises(c_library.Failure) as failed:
                work()
            self.assertEqual((failed.exception.status, failed.exception.text),
                             (2, f"{message} is memory of cuda:0; accepted: memory of the host"))  # fmt: skip


if __name__ == "__main__":
    unittest.main()
