#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What libstof.so says to bad arguments, word for word; none of them crashes it.

usage: errors_test.py LIBSTOF.SO
"""

import ctypes as c
import sys
import unittest

import c_library
from c_library import BOOL, F16, F32, I32, Array, Call, Shape, Table, TableContents
from memory import Host
from problem import Problem

STOF = c_library.Stof(sys.argv.pop())
C = STOF.library


class Errors(unittest.TestCase):
    def refused(self, message, work, status=2):
        with self.assertRaises(c_library.Failure) as failed:
            work()
        self.assertEqual((failed.exception.status, failed.exception.text), (status, message))

    def mask(self, text="causal"):
        mask = STOF.parse(text)
        self.addCleanup(C.stof_mask_destroy, mask)
        return mask

    def plan(self, problem, text="causal"):
        plan = STOF.plan(self.mask(text), problem.shape)
        self.addCleanup(C.stof_plan_destroy, plan)
        return plan

    def test_masks_of_text(self):
        handle = c.c_void_p()
        self.refused("stof_mask_parse: mask is NULL", lambda: STOF.check(C.stof_mask_parse(b"all", None, None)))
        self.refused("stof_mask_parse: text is NULL", lambda: STOF.mask("parse", None, None))
        self.refused(f"mask: unknown term 'casual' (did you mean 'causal'?); accepted: {TERMS}\n  casual\n  ^", lambda: STOF.parse("casual"))
        self.assertEqual(C.stof_mask_parse(b"casual", None, c.byref(handle)), 2)
        self.assertIsNone(handle.value)
        self.refused("mask: cannot read 'none/no.npy': No such file or directory\n  bits('no.npy')\n       ^",
                     lambda: STOF.mask("parse", b"bits('no.npy')", b"none"))  # fmt: skip

    def test_masks_nested_too_deep(self):
        self.refused(f"mask: nested deeper than 150 levels\n  ...{'(' * 120}...\n{' ' * 65}^",
                     lambda: STOF.parse("(" * 10000 + "all" + ")" * 10000))  # fmt: skip
        mask = self.mask()
        with self.assertRaises(c_library.Failure) as failed:
            for step in range(10000):
                mask = STOF.mask("or" if step % 2 else "and", mask, self.mask(f"window({step})"))
                self.addCleanup(C.stof_mask_destroy, mask)
        self.assertEqual((failed.exception.status, failed.exception.text),
                         (2, "mask is nested 151 deep; accepted: at most 150"))  # fmt: skip

    def test_masks_of_arrays(self):
        bits = lambda array: STOF.mask("bits", array)
        cells = lambda shape, dtype=BOOL, count=36: c_library.array([1] * count, shape, dtype)
        self.refused("stof_mask_bits: allowed is NULL", lambda: STOF.mask("bits", None))
        self.refused("stof_mask_bits: allowed.dtype is 9; accepted: 0..4, a stof_dtype", lambda: bits(Array(dtype=9)))
        self.refused("stof_mask_bits: allowed.dtype is -1; accepted: 0..4, a stof_dtype", lambda: bits(Array(dtype=-1)))
        self.refused("stof_mask_bits: allowed.rank is 5; accepted: 1..4", lambda: bits(Array(rank=5)))
        self.refused("stof_mask_bits: allowed.rank is 0; accepted: 1..4", lambda: bits(Array(rank=0)))
        self.refused("stof_mask_bits: allowed.shape is NULL", lambda: bits(Array(rank=2)))
        far = c_library.array([1] * 36, (6, 6), BOOL, strides=(1 << 62, 1))
        most = (1 << 47) // 6
        self.refused(f"stof_mask_bits: allowed.strides[0] is {1 << 62}; accepted: -{most} to {most} elements", lambda: bits(far))
        large = c_library.array([1] * 36, (1 << 31, 1 << 31), BOOL)
        large.strides = None
        self.refused(f"stof_mask_bits: allowed.shape is [{1 << 31}, {1 << 31}]; accepted: at most {1 << 47} bytes",
                     lambda: bits(large))  # fmt: skip
        empty = cells((6, 6))
        empty.data = None
        self.refused("bits: the array has no memory, its data is null; its shape is [6, 6]", lambda: bits(empty))
        self.refused("bits: the array is [36]; accepted: [N, M], [H, N, M] or [B, H, N, M]", lambda: bits(cells((36,))))
        self.refused("bits: the array is i32; accepted: bool", lambda: bits(cells((6, 6), I32)))
        self.refused("shape [6, -6] has a negative dimension", lambda: bits(cells((6, -6))))
        self.refused("shape [4611686018427387904, 4] has more than 2^63 - 1 elements", lambda: bits(cells((1 << 62, 4))))
        self.refused("stof_mask_blocks: mask is NULL", lambda: STOF.check(C.stof_mask_blocks(2, cells((6, 6)), None)))
        self.refused("blocks: block size = 0; accepted: 1 to 1099511627776", lambda: STOF.mask("blocks", 0, cells((6, 6))))
        self.refused("blocks: the array is [4, 9]; accepted: [R, C] or [H, R, C] with R = C",
                     lambda: STOF.mask("blocks", 2, cells((4, 9))))  # fmt: skip
        ids = cells((6,), I32)
        ids.data += 1
        self.refused(f"stof_mask_document_ids: ids.data is at {ids.data:#x}; accepted for i32: a multiple of 4",
                     lambda: STOF.mask("document_ids", ids))  # fmt: skip

    def test_combined_masks(self):
        mask = self.mask()
        self.refused("stof_mask_and: a is NULL", lambda: STOF.mask("and", None, mask))
        self.refused("stof_mask_and: b is NULL", lambda: STOF.mask("and", mask, None))
        self.refused("stof_mask_or: b is NULL", lambda: STOF.mask("or", mask, None))
        self.refused("stof_mask_not: a is NULL", lambda: STOF.mask("not", None))
        self.assertIsNone(C.stof_mask_text(None))
        self.assertEqual(C.stof_mask_depends_on_length(None), 0)
        C.stof_mask_destroy(None)

    def test_plans(self):
        mask, good = self.mask(), Problem().shape
        whole = Shape(c.sizeof(Shape), *good)
        create = lambda *given: STOF.check(C.stof_plan_create(*given))
        out = c.c_void_p()
        self.refused("stof_plan_create: plan is NULL", lambda: create(mask, whole, b"cpu", None, None))
        self.refused("stof_plan_create: mask is NULL", lambda: create(None, whole, b"cpu", None, out))
        self.refused("stof_plan_create: shape is NULL", lambda: create(mask, None, b"cpu", None, out))
        self.refused("stof_plan_create: device is NULL", lambda: create(mask, whole, None, None, out))
        self.refused("stof_plan_create: shape.struct_size is 0; accepted: 64, 72, 80, 88", lambda: create(mask, Shape(), b"cpu", None, out))
        for at, value, message in (
            (0, -1, "attention: batch = -1; accepted: 1..1073741824"),
            (1, 0, "attention: heads = 0; accepted: 1..1073741824"),
            (2, 3, "attention: heads = 4 is not a multiple of kv_heads = 3"),
            (3, -7, "attention: queries = -7; accepted: 0..1073741824"),
            (4, 1 << 40, "attention: keys = 1099511627776; accepted: 0..1073741824"),
            (5, 257, "attention: head_dim = 257; accepted: 1..256"),
            (6, 11, "stof_plan_create: shape.dtype is 11; accepted: 0..4, a stof_dtype"),
            (6, I32, "attention: dtype i32; accepted: f32, f16, bf16"),
        ):
            self.refused(message, lambda: STOF.plan(mask, good[:at] + (value,) + good[at + 1 :]))
        self.refused("unknown device 'tpu'; accepted: auto, cpu, cuda, cuda:N; to plan for: cuda:h200, cuda:h100, cuda:a100", lambda: STOF.plan(mask, good, "tpu"))
        self.refused("unknown attention kernel 'sharp'; accepted: auto, block_attention, row_attention",
                     lambda: STOF.plan(mask, good, kernel="sharp"))  # fmt: skip
        size = c.c_size_t(5)
        self.refused("stof_plan_workspace_size: plan is NULL", lambda: STOF.check(C.stof_plan_workspace_size(None, size)))
        self.assertEqual(size.value, 0)
        plan = self.plan(Problem())
        self.refused("stof_plan_workspace_size: bytes is NULL", lambda: STOF.check(C.stof_plan_workspace_size(plan, None)))
        self.assertEqual(STOF.workspace_size(plan), 0)
        self.assertIsNone(C.stof_plan_description(None))
        C.stof_plan_destroy(None)

    def test_tables(self):
        good = Problem().shape
        table = lambda **given: STOF.table_plan(good, **given)
        whole, form = Shape(c.sizeof(Shape), *good), Table(c.sizeof(Table), width=1)
        create = lambda *given: STOF.check(C.stof_plan_create_table(*given))
        out = c.c_void_p()
        name = "stof_plan_create_table: "
        self.refused(name + "plan is NULL", lambda: create(form, None, whole, b"cpu", None))
        self.refused(name + "table is NULL", lambda: create(None, None, whole, b"cpu", out))
        self.refused(name + "table.struct_size is 0; accepted: 64", lambda: create(Table(), None, whole, b"cpu", out))
        self.refused(name + "shape is NULL", lambda: create(form, None, None, b"cpu", out))
        self.refused(name + "device is NULL", lambda: create(form, None, whole, None, out))
        self.refused(name + "table.kind is 4; accepted: 0..3, a stof_table_kind", lambda: table(kind=4))
        self.refused("table: width = 0; accepted: 1..1048576", lambda: table())
        self.refused("table: heads = 3; accepted here: 1, 2, 4", lambda: table(heads=3, width=1))
        self.refused("table: block_q = 63; accepted: multiples of 64 up to 1048576", lambda: table(block_q=63, width=1))
        plan = table(width=1)
        self.addCleanup(C.stof_plan_destroy, plan)
        self.refused("stof_plan_update: plan is NULL", lambda: STOF.update(None, None))
        self.refused("stof_plan_update: contents is NULL", lambda: STOF.check(C.stof_plan_update(plan, None)))
        self.refused("stof_plan_update: contents.struct_size is 0; accepted: 56",
                     lambda: STOF.check(C.stof_plan_update(plan, TableContents())))  # fmt: skip
        self.refused("table: data is a null pointer", lambda: STOF.update(plan, None))
        self.refused("stof_plan_update: contents.stream is 0x8; accepted on the CPU: NULL",
                     lambda: STOF.update(plan, None, stream=8))  # fmt: skip
        call = Problem().on(Host())
        self.refused("attention: the plan's table has no contents; update it first", lambda: STOF.run(plan, call))
        of_mask = self.plan(Problem())
        self.refused("attention: this plan was made for a mask, not for a table", lambda: STOF.update(of_mask, None))

    def test_preparing(self):
        plan = self.plan(Problem())
        self.refused("stof_plan_prepare: plan is NULL", lambda: STOF.prepare(None, 1, 1))
        self.refused("attention: 25 queries to prepare for; accepted: 0..24", lambda: STOF.prepare(plan, 25, 1))
        self.refused("attention: -1 keys to prepare for; accepted: 0..28", lambda: STOF.prepare(plan, 1, -1))
        many = STOF.plan(self.mask("documents([0, 5]) & bigbird(1, 1, 0, 0, 2)"), (1, 1, 1, 300, 300, 8, F32))
        self.addCleanup(C.stof_plan_destroy, many)
        for length in range(10, 266):
            STOF.prepare(many, length, length)
        STOF.prepare(many, 20, 20)
        self.refused("attention: 256 pairs of lengths are prepared, the most that there can be",
                     lambda: STOF.prepare(many, 266, 266), status=3)  # fmt: skip

    def test_a_described_gpu_only_plans(self):
        plan = STOF.plan(self.mask(), Problem(dtype=F16).shape, "cuda:h200")
        self.addCleanup(C.stof_plan_destroy, plan)
        self.refused("NVIDIA H200 (described) is a description to plan with; accepted for running: cuda, cuda:N",
                     lambda: STOF.run(plan, Problem(dtype=F16).on(Host())), status=4)  # fmt: skip

    def calls(self, problem, plan):
        """run_with(change): runs a good call after change(call)."""

        def run_with(change):
            call = problem.on(Host())
            change(call)
            STOF.run(plan, call)

        return run_with

    def test_calls(self):
        problem = Problem(batch=2, heads=4, queries=24, keys=28, d=16, order="gaps")
        plan = self.plan(problem)
        run_with = self.calls(problem, plan)
        self.refused("stof_plan_run: plan is NULL", lambda: STOF.run(None, Call()))
        self.refused("stof_plan_run: call is NULL", lambda: STOF.run(plan, None))
        for change, message in (
            (("struct_size", 8), f"stof_plan_run: call.struct_size is 8; accepted: {Call.page_table.offset}, "
                                      f"{Call.softcap.offset}, {Call.device_q_lengths.offset}, {Call.tree.offset}, {Call.relative_bias.offset}, {c.sizeof(Call)}"),
            (("dtype", 99), "stof_plan_run: call.dtype is 99; accepted: 0..4, a stof_dtype"),
            (("dtype", F16), "stof_plan_run: call.dtype is f16; this plan takes f32"),
            (("batch", -2), "stof_plan_run: call.batch is -2; accepted: 0..2147483646"),
            (("queries", -1), "stof_plan_run: call.queries is -1; accepted: 0..2147483647"),
            (("keys", 1 << 31), "stof_plan_run: call.keys is 2147483648; accepted: 0..2147483647"),
            (("queries", 25), "attention: the number of query rows of item 0 is 25; accepted: 0..24"),
            (("keys", 29), "attention: the number of keys of item 0 is 29; accepted: 0..28"),
            (("stream", 16), "stof_plan_run: call.stream is 0x10; accepted on the CPU: NULL"),
            (("cu_q", 64), "stof_plan_run: call.cu_kv is NULL; accepted: both cu_q and cu_kv, or neither"),
            (("cu_kv", 64), "stof_plan_run: call.cu_q is NULL; accepted: both cu_q and cu_kv, or neither"),
            (("device_cu_q", 64), "stof_plan_run: call.device_cu_kv is NULL; accepted: both device_cu_q and device_cu_kv, "
                                  "or neither"),
            (("device_q_lengths", 5), "stof_plan_run: call.device_q_lengths is at 0x5; accepted for i32: a multiple of 4"),
            (("lengths_status", 6), "stof_plan_run: call.lengths_status is at 0x6; accepted for i32: a multiple of 4"),
            (("q_lengths", 5), "stof_plan_run: call.q_lengths is at 0x5; accepted for i32: a multiple of 4"),
            (("scale", c.pointer(c.c_float(float("inf")))), "attention: scale = inf; accepted: -1e18..1e18"),
            (("softcap", c.pointer(c.c_float(0))), "attention: softcap = 0; accepted: 1e-18..1e18"),
        ):
            self.refused(message, lambda: run_with(lambda call: setattr(call, *change)))

    def test_sizes_that_cost_the_caller_nothing(self):
        def without_rows(call):
            call.batch, call.queries, call.keys = 1 << 23, 0, 0

        problem = Problem()
        self.refused("attention: 8388608 items of 4 heads; accepted: at most 16777216 heads of all items",
                     lambda: self.calls(problem, self.plan(problem))(without_rows))  # fmt: skip
        for shape in ((1 << 40, 0, 0), (1 << 62, 0)):
            self.refused(f"bits: the array is {list(shape)}; accepted: at most 16777216 tables of at most 1073741824 a side",
                         lambda: STOF.mask("bits", c_library.array([], shape, BOOL)))  # fmt: skip

    def test_shapes_of_callers_that_know_of_less(self):
        problem = Problem(batch=2, heads=4, queries=24, keys=28, d=16)
        for size, capped in ((Shape.capped.offset, "false"), (Shape.tree_queries.offset, "true")):
            plan, shape = c.c_void_p(), Shape(size, *problem.shape)
            shape.capped, shape.tree_queries = 1, 1 << 40  # not looked at where the size ends before them
            self.assertEqual(C.stof_plan_create(self.mask(), c.byref(shape), b"cpu", None, c.byref(plan)), 0)
            self.addCleanup(C.stof_plan_destroy, plan)
            self.assertIn(f'"capped":{capped},"tree_queries":0', C.stof_plan_description(plan).decode())

    def test_callers_that_know_of_less(self):
        problem = Problem(batch=2, heads=4, queries=24, keys=28, d=16)
        call = problem.on(Host())
        call.relative_bias = 3
        call.struct_size = Call.relative_bias.offset
        STOF.run(self.plan(problem), call)
        call.tree, call.tree_queries = 3, -1
        call.struct_size = Call.tree.offset
        STOF.run(self.plan(problem), call)
        call.device_cu_q = call.lengths_status = 3
        call.struct_size = Call.device_q_lengths.offset
        STOF.run(self.plan(problem), call)
        call.softcap = c.pointer(c.c_float(-1))
        call.struct_size = Call.softcap.offset
        STOF.run(self.plan(problem), call)
        call.struct_size, call.page_table, call.page_size = Call.page_table.offset, 3, -7
        STOF.run(self.plan(problem), call)

    def test_pages(self):
        problem = Problem(batch=2, queries=1, keys=32, page_size=16)
        run_with = self.calls(problem, self.plan(problem))
        for change, message in (
            (("page_size", 0), "stof_plan_run: call.page_size is 0; accepted: 16, 32, 64, 128, 256"),
            (("pages", -1), "stof_plan_run: call.pages is -1; accepted: 0..2147483647"),
            (("page_table_stride", -4), "stof_plan_run: call.page_table_stride is -4; accepted: 0..2147483647"),
            (("page_table", 6), "stof_plan_run: call.page_table is at 0x6; accepted for i32: a multiple of 4"),
            (("keys", 20), "stof_plan_run: call.keys is 20; accepted with pages: a multiple of 16"),
            (("cu_kv", 64), "attention: both cumulative offsets and lengths; give one of the two"),
            (("device_cu_kv", 64), "attention: both device_lengths and other lengths, offsets or rows; give one"),
            (("device_kv_lengths", 6), "stof_plan_run: call.device_kv_lengths is at 0x6; accepted for i32: a multiple of 4"),
        ):
            self.refused(message, lambda: run_with(lambda call: setattr(call, *change)))

        for lists, message in (
            (("device_cu_q", "device_cu_kv"), "attention: device_cu_kv with a page table; accepted: device_kv_lengths"),
            (("device_cu_kv", "device_kv_lengths"), "attention: device_cu_kv with a page table; accepted: device_kv_lengths"),
            (("device_q_lengths", "device_cu_q"), "attention: device_q_lengths and device_cu_q; give one of the two"),
        ):

            def give(call):
                call.q_lengths = call.kv_lengths = None
                for name in lists:
                    setattr(call, name, 64)

            self.refused(message, lambda: run_with(give))

        def odd(call):
            call.page_size, call.keys = size, 64

        for size in (8, 17, 257):  # and not what 64 is a multiple of
            self.refused(f"stof_plan_run: call.page_size is {size}; accepted: 16, 32, 64, 128, 256", lambda: run_with(odd))

    def test_tensors(self):
        problem = Problem(batch=2, heads=4, queries=24, keys=28, d=16)
        run_with = self.calls(problem, self.plan(problem))
        most = (1 << 47) // 4
        for name in ("q", "k", "v", "out", "lse"):
            rows, heads = (28, 2) if name in "kv" else (24, 4)
            at = problem.on(Host()).kept[name].address
            for field, value, message in (
                ("row_stride", -16, f".row_stride is -16; accepted: 0..{most // rows} elements"),
                ("head_stride", -1, f".head_stride is -1; accepted: 0..{most // heads} elements"),
                ("batch_stride", 1 << 62, f".batch_stride is {1 << 62}; accepted: 0..{most // 2} elements"),
            ):
                self.refused(f"stof_plan_run: call.{name}{message}",
                             lambda: run_with(lambda call: setattr(getattr(call, name), field, value)))  # fmt: skip
            if name != "lse":  # where NULL says that there is none
                self.refused(f"attention: {name} has no memory, its data is null; its shape is [2, {heads}, {rows}, 16]",
                             lambda: run_with(lambda call: setattr(getattr(call, name), "data", None)))  # fmt: skip
            self.refused(f"stof_plan_run: call.{name}.data is at 0x7; accepted for f32: a multiple of 4",
                         lambda: run_with(lambda call: setattr(getattr(call, name), "data", 7)))  # fmt: skip

    def test_outputs_that_share_memory(self):
        problem = Problem(batch=2, heads=4, queries=24, keys=28, d=16)
        run_with = self.calls(problem, self.plan(problem))
        for name, field, value, least in (("out", "row_stride", 15, 16), ("out", "head_stride", 383, 384),
                                          ("out", "batch_stride", 0, 16), ("lse", "row_stride", 0, 1),
                                          ("lse", "batch_stride", 95, 96)):  # fmt: skip
            what = {"row_stride": "rows", "head_stride": "heads", "batch_stride": "items"}[field]
            self.refused(f"attention: {what} of {name} are {value} elements apart, so that rows share memory; accepted here: "
                         f"{least} or more",
                         lambda: run_with(lambda call: setattr(getattr(call, name), field, value)))  # fmt: skip

    def test_lengths(self):
        padded = Problem(lengths=[(24, 28), (5, 9)])
        packed = Problem(lengths=[(24, 28), (5, 9)], packed=True)
        plan = self.plan(padded)

        def run(problem, name, values, **more):
            call = problem.on(Host())
            kept = (c.c_int32 * len(values))(*values)
            setattr(call, name, c.addressof(kept))
            for field, value in more.items():
                setattr(call, field, value)
            STOF.run(plan, call)

        self.refused("attention: q_lengths of item 1 is 25; accepted: 0..24", lambda: run(padded, "q_lengths", (1, 25)))
        self.refused("attention: kv_lengths of item 0 is -1; accepted: 0..28", lambda: run(padded, "kv_lengths", (-1, 2)))
        self.refused("attention: cu_q falls from 24 to 20 at offset 2", lambda: run(packed, "cu_q", (0, 24, 20)))
        self.refused("attention: cu_q has 3 offsets from 0 to 30; accepted: batch + 1 offsets from 0 to at most 29",
                     lambda: run(packed, "cu_q", (0, 24, 30)))  # fmt: skip
        self.refused("attention: cu_kv has 3 offsets from 1 to 37; accepted: batch + 1 offsets from 0 to at most 37",
                     lambda: run(packed, "cu_kv", (1, 28, 37)))  # fmt: skip
        self.refused("attention: the length of cu_kv of item 0 is 29; accepted: 0..28",
                     lambda: run(packed, "cu_kv", (0, 29, 37)))  # fmt: skip
        self.refused("attention: both cumulative offsets and lengths; give one of the two",
                     lambda: run(packed, "q_lengths", (24, 5)))  # fmt: skip
        self.refused("stof_plan_run: call.batch is 0; accepted: 1..2147483646", lambda: run(packed, "cu_q", (0,), batch=0))

    def test_items_beyond_a_mask_that_differs_by_item(self):
        plan = self.plan(Problem(), "batch(0: causal, *: all)")
        self.refused("attention: 3 items; the mask differs by item and was planned for 2",
                     lambda: STOF.run(plan, Problem(batch=3).on(Host())))  # fmt: skip

    def test_the_text_stays_until_the_next_failure(self):
        self.refused("stof_mask_not: a is NULL", lambda: STOF.mask("not", None))
        self.mask()
        self.assertEqual(C.stof_last_error(), b"stof_mask_not: a is NULL")


def terms():
    """Of an unknown mask's message, which is tested with the language; here it only has to arrive whole."""
    handle = c.c_void_p()
    C.stof_mask_parse(b"nosuchmask", None, handle)
    return C.stof_last_error().decode().split("accepted: ")[1].split("\n")[0]


TERMS = terms()

if __name__ == "__main__":
    unittest.main()
