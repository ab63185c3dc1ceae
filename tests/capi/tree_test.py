#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draft trees that calls bring to libstof.so, against their definition: beside a mask, for items of every length, in rows
and over pages; on a GPU also from a recorded graph whose trees change.

usage: tree_test.py LIBSTOF.SO cpu|cuda    exit status 77 when the device is not there
"""

import json
import random
import unittest

import c_library
from c_library import F16, F32
from given import DEVICE, MEMORY, STOF, Plans
from memory import pack, pack_i32
from problem import UNTOUCHED, Problem

MASKS = {
    "causal": lambda b, h, p, j: j <= p,
    "causal & window(16)": lambda b, h, p, j: j <= p and p - j <= 16,
    "all": lambda b, h, p, j: True,
    "!strided(3)": lambda b, h, p, j: (p - j) % 3 != 0,
}
KERNELS = ("auto", "row_attention", *(("block_attention",) if DEVICE == "cpu" else ("stream_attention", "mma_attention")))
DTYPE = F32 if DEVICE == "cpu" else F16


class Trees:
    """Random bits for each item, or one tree for all; what lies between rows and items allows all."""

    def __init__(self, queries, items=1, seed=1, gap=0):
        self.queries, self.items, words = queries, items, -(-queries // 32)
        self.row_stride = words + gap
        self.item_stride = queries * self.row_stride + gap
        rng = random.Random(seed)
        self.words = [-1] * (items * self.item_stride)
        for item in range(items):
            for row in range(queries):
                at = item * self.item_stride + row * self.row_stride
                self.words[at : at + words] = [rng.randrange(-1 << 31, 1 << 31) for _ in range(words)]

    def sees(self, b, query, other):
        at = (b if self.items > 1 else 0) * self.item_stride + query * self.row_stride + other // 32
        return self.words[at] >> other % 32 & 1 == 1

    def beside(self, allowed, lengths):
        """The definition: what a mask allows, and of an item's own keys what the tree does."""

        def both(b, h, p, j):
            queries, keys = lengths[b]
            before = keys - queries
            of_tree = queries <= self.queries and j >= before
            return allowed(b, h, p, j) and not (of_tree and not self.sees(b, p - before, j - before))

        return both

    def bring(self, call):
        call.kept["tree"] = MEMORY.allocate(pack_i32(self.words))
        call.tree, call.tree_queries, call.tree_row_stride = call.kept["tree"].address, self.queries, self.row_stride
        call.tree_batch_stride = self.item_stride if self.items > 1 else 0
        return call


class DraftTrees(Plans):
    def tree_plan(self, kernel, text, problem):
        """That serves items wherever they begin."""
        plan = self.plan_by(kernel, text, problem)
        if plan is not None:
            STOF.prepare(plan, problem.queries, 1)
        return plan

    def expect(self, plan, problem, trees, text, lists=False):
        call = trees.bring(problem.on_with_lists(MEMORY) if lists else problem.on(MEMORY))
        STOF.run(plan, call)
        self.assertLess(problem.worst(call, trees.beside(MASKS[text], problem.lengths)), 1)

    def test_every_kernel_and_mask(self):
        """Items with a tree of all its queries and of some, of more queries than it has, of none, and of no other keys or
        not even all of its own."""
        lengths = [(40, 140), (7, 90), (64, 130), (0, 5), (33, 33), (1, 64), (9, 6)]
        for kernel in KERNELS:
            for packed, page_size in ((False, 0), (True, 0), (False, 16), (True, 16)):
                problem = Problem(batch=7, heads=2, kv_heads=1, queries=64, keys=144, lengths=lengths, packed=packed,
                                  page_size=page_size, dtype=DTYPE, tree_queries=40)  # fmt: skip
                for text in MASKS:
                    plan = self.tree_plan(kernel, text, problem)
                    for lists, trees in ((False, Trees(40, 7, gap=3)), (True, Trees(33, seed=2))) if plan is not None else ():
                        with self.subTest(kernel=kernel, packed=packed, page_size=page_size, mask=text, lists=lists):
                            self.expect(plan, problem, trees, text, lists)

    def test_few_queries(self):
        """As a step of a server that verifies has them: on a GPU of decode_attention, and of stacked heads."""
        for lengths, queries in (([(1, 60), (8, 200), (16, 16), (5, 37)], 16), ([(32, 100), (3, 3), (31, 95), (8, 8)], 32)):
            for page_size in (0, 16, 64):
                for text in ("causal", "causal & window(16)"):
                    problem = Problem(batch=4, heads=8 if DEVICE == "cuda" else 4, queries=queries, keys=256, lengths=lengths, packed=page_size > 0,
                                      page_size=page_size, dtype=DTYPE, d=64 if DEVICE == "cuda" else 16, order="bshd", tree_queries=queries)  # fmt: skip
                    plan = self.tree_plan("auto", text, problem)
                    for lists, trees in ((False, Trees(queries, 4)), (True, Trees(queries, 4, gap=1)), (False, Trees(8))):
                        with self.subTest(queries=queries, page_size=page_size, mask=text, lists=lists, trees=trees.items):
                            self.expect(plan, problem, trees, text, lists)

    def test_a_step_of_a_server(self):
        """Items that verify trees, and one that decodes without, beside a chunk of a prompt: one call of one plan."""
        lengths = [(8, 200), (8, 31), (1, 90), (100, 230), (5, 5)]
        problem = Problem(batch=5, queries=100, keys=256, lengths=lengths, packed=True, page_size=16, dtype=DTYPE, tree_queries=8)
        for text in ("causal", "causal & window(16)"):
            plan = self.tree_plan("auto", text, problem)
            STOF.prepare(plan, 8, 1)
            for lists in (False, True):
                with self.subTest(mask=text, lists=lists):
                    self.expect(plan, problem, Trees(8, 5), text, lists)

    def test_masks_that_depend_on_length(self):
        """Whose items have plans of their own, for fewer queries than a tree may have."""
        lengths = [(64, 128), (9, 70), (0, 5), (64, 128)]
        problem = Problem(batch=4, queries=64, keys=128, lengths=lengths, dtype=DTYPE, tree_queries=40)
        plan = self.plan("causal & (random_blocks(16,1,7) | !random_blocks(16,1,7))", problem)
        for queries, keys in lengths[1:3]:
            STOF.prepare(plan, queries, keys)
        self.expect(plan, problem, Trees(40, 4), "causal")

    def test_calls_without_one(self):
        problem = Problem(dtype=DTYPE, tree_queries=24)
        call = problem.on(MEMORY)
        STOF.run(self.plan("causal", problem), call)
        self.assertLess(problem.worst(call, MASKS["causal"]), 1)

    def test_a_softcap_beside(self):
        problem = Problem(dtype=DTYPE, tree_queries=24, softcap=0.75, lengths=[(24, 28), (11, 20)])
        for capped in (False, True):
            problem.capped = capped
            self.expect(self.tree_plan("auto", "causal", problem), problem, Trees(24, 2), "causal")

    @unittest.skipUnless(DEVICE == "cuda", "graphs are of CUDA")
    def test_a_graph_follows_them(self):
        for kernel in KERNELS:
            for queries in (8, 70):
                problem = Problem(batch=2, queries=queries, keys=128, dtype=F16, lengths=[(queries, 128), (queries - 3, 100)], d=64,
                                  tree_queries=queries)  # fmt: skip
                plan = self.tree_plan(kernel, "causal", problem)
                if plan is not None:
                    with self.subTest(kernel=kernel, queries=queries):
                        self.replay(plan, problem)

    def replay(self, plan, problem):
        call = Trees(problem.queries, 2, seed=9).bring(problem.on(MEMORY))
        call.stream = MEMORY.stream().value
        STOF.run(plan, call)
        launch = MEMORY.recorded(call.stream, lambda: STOF.run(plan, call))
        for seed in range(3):
            trees = Trees(problem.queries, 2, seed)
            call.kept["tree"].write(pack_i32(trees.words))
            call.kept["out"].write(pack([UNTOUCHED] * (call.kept["out"].size // 2), F16))
            call.kept["lse"].write(pack([UNTOUCHED] * (call.kept["lse"].size // 4), F32))
            launch()
            self.assertLess(problem.worst(call, trees.beside(MASKS["causal"], problem.lengths)), 1)

    def test_which_kernels_take_them(self):
        """As docs/c_api.md says it."""
        for text, queries, dtype, capped, kernel in (
            ("causal", 16, F16, 0, "decode_attention"), ("!strided(3)", 16, F16, 0, "decode_attention"), ("causal", 17, F16, 0, "stream_attention"),
            ("causal & (window(64) | sink(4))", 64, F16, 0, "stream_attention"), ("!strided(3)", 64, F16, 0, "mma_attention"),
            ("causal", 16, F16, 1, "decode_attention"), ("causal", 64, F16, 1, "mma_attention"), ("causal", 16, F32, 0, "row_attention"),
        ):  # fmt: skip
            plan = STOF.plan(self.parse(text), (4, 32, 8, queries, 4096, 128, dtype, capped, queries), "cuda:h200")
            self.addCleanup(STOF.library.stof_plan_destroy, plan)
            self.assertEqual(json.loads(STOF.library.stof_plan_description(plan))["kernel"], kernel, (text, queries))

    def refused(self, message, work, status=2):
        with self.assertRaises(c_library.Failure) as failed:
            work()
        self.assertEqual((failed.exception.status, failed.exception.text), (status, message))

    def test_errors(self):
        problem = Problem(dtype=DTYPE, tree_queries=20)
        plan = self.plan("causal", problem)
        for change, message in (
            (("tree_queries", 0), "stof_plan_run: call.tree_queries is 0; accepted: 1..2147483647"),
            (("tree_queries", 21), "attention: tree is i32 [2, 21, 1]; accepted: i32 [2 or 1, T, ceil(T / 32)] with T of 1..20, the planned tree_queries"),
            (("tree_row_stride", -1), "stof_plan_run: call.tree_row_stride is -1; accepted: 0..2147483647"),
            (("tree_batch_stride", -1), "stof_plan_run: call.tree_batch_stride is -1; accepted: 0..70368744177664"),
            (("tree", 6), "stof_plan_run: call.tree is at 0x6; accepted for i32: a multiple of 4"),
        ):  # fmt: skip
            call = Trees(20, 2).bring(problem.on(MEMORY))
            setattr(call, *change)
            self.refused(message, lambda: STOF.run(plan, call))
        call = Trees(20, 2).bring(problem.on(MEMORY))
        other = self.plan("causal", Problem(dtype=DTYPE))
        self.refused("attention: a tree with a plan for none; accepted where the plan's shape has tree_queries", lambda: STOF.run(other, call))
        for queries in (-1, 25):
            self.refused(f"attention: tree_queries = {queries}; accepted: 0..24",
                         lambda: self.plan("causal", Problem(tree_queries=queries)))  # fmt: skip
        self.refused("attention: tree_queries = 20 with a plan of a table; accepted: 0",
                     lambda: STOF.table_plan(problem.shape, device=DEVICE, kind=c_library.TABLE_BITS), status=3)  # fmt: skip


if __name__ == "__main__":
    unittest.main()
