#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attention of python/stof against its definition, on arrays that have NumPy's interface.

usage: attention_test.py LIBSTOF.SO
"""

import copy
import math
import pickle
import random
import traceback
import unittest

from given import Array, attended, nothing

import stof

D = 8


def columns(array, *place):
    return [array[(*place, i)] for i in range(D)]


class Attention(unittest.TestCase):
    def setUp(self):
        random.seed(1)

    def expect(self, out, lse, want, *place):
        values, logarithm = want
        for got, wanted in zip(columns(out, *place[0]), values):
            self.assertAlmostEqual(got, wanted, delta=2e-6)
        if lse is not None:
            got = lse[place[1]]
            self.assertTrue(got == logarithm or abs(got - logarithm) < 2e-6, (got, logarithm))

    def test_padded_items_of_any_length(self):
        q, k, v = Array((2, 4, 6, D)), Array((2, 2, 9, D)), Array((2, 2, 9, D))
        plan = stof.Attention("causal & window(3)", batch=2, heads=4, kv_heads=2, queries=6, keys=9, head_dim=D, dtype="f32", device="cpu")
        self.assertIn(plan.description["kernel"], ("block_attention", "row_attention"))
        plan.prepare(4, 7)
        for q_lengths, kv_lengths in ((None, None), ([6, 4], [9, 7]), (Array((2,), [6, 4], "<i4"), Array((2,), [9, 7], "<i4"))):
            out, lse = nothing(2, 4, 6, D), nothing(2, 4, 6)
            given = plan.run(q, k, v, out=out, lse=lse, q_lengths=q_lengths, kv_lengths=kv_lengths, scale=0.5, softcap=2)
            self.assertIs(given, out)
            for b, rows, keys in ((0, 6, 9), (1, 6, 9) if q_lengths is None else (1, 4, 7)):
                for h in range(4):
                    for i in range(rows):
                        seen = [j for j in range(keys) if 0 <= i + keys - rows - j <= 3]
                        of = lambda array: [columns(array, b, h // 2, j) for j in seen]
                        self.expect(out, lse, attended(columns(q, b, h, i), of(k), of(v), 0.5, 2), (b, h, i), (b, h, i))
                    for i in range(rows, 6):
                        self.assertTrue(all(math.isnan(x) for x in columns(out, b, h, i)))

    def test_packed_items(self):
        q, k, v, out, lse = Array((7, 2, D)), Array((9, 2, D)), Array((9, 2, D)), nothing(7, 2, D), nothing(2, 7)
        plan = stof.Attention("causal", batch=2, heads=2, queries=4, keys=5, head_dim=D, dtype="f32", device="cpu")
        plan.run(q, k, v, out=out, lse=lse, cu_q=[0, 3, 7], cu_kv=[0, 4, 9])
        for begin, end, first, last in ((0, 3, 0, 4), (3, 7, 4, 9)):
            for row in range(begin, end):
                for h in range(2):
                    seen = range(first, last - (end - row) + 1)
                    of = lambda array: [columns(array, j, h) for j in seen]
                    self.expect(out, lse, attended(columns(q, row, h), of(k), of(v), 1 / math.sqrt(D)), (row, h), (h, row))

    def test_keys_in_pages(self):
        q, k, v, out = Array((2, 2, 1, D)), Array((5, 1, 16, D)), Array((5, 1, 16, D)), nothing(2, 2, 1, D)
        plan = stof.Attention("causal", batch=2, heads=2, kv_heads=1, queries=1, keys=32, head_dim=D, dtype="f32", device="cpu")
        plan.prepare(1, 1)
        table, lengths = [[3, 0], [4, 1]], [20, 3]
        plan.run(q, k, v, out=out, kv_lengths=lengths, page_table=Array((2, 2), sum(table, []), "<i4"), check_pages=True)
        for b in range(2):
            for h in range(2):
                of = lambda array: [columns(array, table[b][j // 16], 0, j % 16) for j in range(lengths[b])]
                self.expect(out, None, attended(columns(q, b, h, 0), of(k), of(v), 1 / math.sqrt(D)), (b, h, 0))

    def test_packed_queries_over_pages(self):
        q, k, v, out = Array((3, 2, D)), Array((5, 1, 16, D)), Array((5, 1, 16, D)), nothing(3, 2, D)
        plan = stof.Attention("causal", batch=2, heads=2, kv_heads=1, queries=2, keys=32, head_dim=D, dtype="f32", device="cpu")
        plan.prepare(2, 1)
        table, lengths, offsets = [[3, 0], [4, 1]], [20, 3], [0, 2, 3]
        plan.run(q, k, v, out=out, cu_q=offsets, kv_lengths=lengths, page_table=Array((2, 2), sum(table, []), "<i4"))
        for b in range(2):
            for row in range(offsets[b], offsets[b + 1]):
                of = lambda array: [columns(array, table[b][j // 16], 0, j % 16) for j in range(lengths[b] - offsets[b + 1] + row + 1)]
                for h in range(2):
                    self.expect(out, None, attended(columns(q, row, h), of(k), of(v), 1 / math.sqrt(D)), (row, h))

    def test_a_wrong_page_is_found_before_anything_is_written(self):
        """Also where items of other lengths have plans of their own."""
        plan = stof.Attention("random_blocks(16,1,7)", batch=2, heads=1, queries=64, keys=64, head_dim=D, dtype="f32", device="cpu")
        plan.prepare(32, 32)
        for table in ([99, 1], [0, 99]):
            q, pool, out = Array((2, 1, 64, D)), Array((4, 1, 64, D)), nothing(2, 1, 64, D)
            with self.assertRaisesRegex(stof.InvalidArgument, r"^attention: page 0 of item \d is 99; accepted: 0..3$"):
                plan.run(q, pool, pool, out=out, q_lengths=[64, 32], kv_lengths=[64, 32], page_table=Array((2, 1), table, "<i4"))
            self.assertTrue(all(map(math.isnan, out.numbers)))

    def test_no_items(self):
        plan = stof.Attention("causal", batch=2, heads=1, queries=8, keys=8, head_dim=D, dtype="f32", device="cpu")
        none = Array((0, 1, 16, D), [])
        self.assertIs(plan.run(none, none, none, out=none, q_lengths=[], kv_lengths=[]), none)

    def test_rows_first(self):
        """[B, S, H, D] is a view of [B, H, S, D]."""
        q, out = Array((1, 3, 2, D)), nothing(1, 3, 2, D)
        turned = [Array((1, 3, 2, D), list(one.numbers), strides=None) for one in (q, out)]
        for one in turned:
            one.__array_interface__ |= {"shape": (1, 2, 3, D), "strides": (24 * D, 4 * D, 8 * D, 4)}
        plan = stof.Attention("all", batch=1, heads=2, queries=3, keys=3, head_dim=D, dtype="f32", device="cpu")
        plan.run(turned[0], turned[0], turned[0], out=turned[1])
        for h in range(2):
            for i in range(3):
                seen = [columns(q, 0, j, h) for j in range(3)]
                self.expect(turned[1], None, attended(columns(q, 0, i, h), seen, seen, 1 / math.sqrt(D)), (0, i, h))

    def test_tables(self):
        """Two heads that share keys, each with blocks of its own: of the first 64 rows and of the other two."""
        seen = [[{0}, {0, 1}], [{1}, set()]]
        q, k = Array((1, 2, 66, D)), Array((1, 1, 70, D))
        plans = {"table_heads": 2, "limit": "causal", "batch": 1, "heads": 2, "kv_heads": 1, "queries": 66, "keys": 70, "head_dim": D,
                 "dtype": "f32", "device": "cpu"}  # fmt: skip
        pairs = [[[j // 64 in seen[h][i // 64] for j in range(70)] for i in range(66)] for h in range(2)]
        forms = {"lists": Array((1, 2, 2, 3), [0, -1, -1, 1, 0, 7, 1, -1, 1, -1, -1, -1], "<i4"),
                 "blocks": Array((1, 2, 2, 2), [block in blocks for of_head in seen for blocks in of_head for block in (0, 1)], "|b1"),
                 "bits": Array((1, 2, 66, 70), [pair for of_head in pairs for row in of_head for pair in row], "|b1"),
                 "packed": Array((1, 2, 66, 9), [sum(row[8 * n + bit] << bit for bit in range(8) if 8 * n + bit < 70)
                                                 for of_head in pairs for row in of_head for n in range(9)], "|u1")}  # fmt: skip
        for kind, contents in forms.items():
            plan = stof.TableAttention(kind, width=3 if kind == "lists" else 0, **plans)
            out, status = nothing(1, 2, 66, D), Array((3,), [9, 9, 9], "<i4")
            with self.assertRaisesRegex(stof.InvalidArgument, "attention: "):
                plan.run(q, k, k, out=out)
            plan.update(contents, status)
            self.assertEqual((status[(0,)], status[(2,)]), (0, 1 if kind == "lists" else 0))
            plan.run(q, k, k, out=out)
            for h in range(2):
                for i in range(66):
                    keys = [columns(k, 0, 0, j) for j in range(70) if pairs[h][i][j] and j <= i + 4]
                    self.expect(out, None, attended(columns(q, 0, h, i), keys, keys, 1 / math.sqrt(D)), (0, h, i))
        of_bits = stof.TableAttention("bits", **plans)
        for call, said in (
            (lambda: plan.update(forms["bits"]), "contents [1, 2, 66, 70] of bool with strides [9240, 4620, 70, 1]; accepted: uint8 [1, 2, 66, 9], any strides whose last is 1"),
            (lambda: plan.update(Array((1, 2, 66, 9), [1] * 1188, "|b1")), "contents [1, 2, 66, 9] of bool with strides [1188, 594, 9, 1]; accepted: uint8 [1, 2, 66, 9]"),
            (lambda: of_bits.update(Array((1, 2, 66, 70), [1] * 9240, "|u1")), "contents [1, 2, 66, 70] of uint8 with strides [9240, 4620, 70, 1]; accepted: bool [1, 2, 66, 70]"),
            (lambda: plan.update(contents, Array((2,), [0, 0], "<i4")), "status [2] of i32 on cpu; accepted: i32 [3] on cpu"),
            (lambda: stof.TableAttention("list", **plans), "a table of kind 'list'; accepted: lists, blocks, bits, packed"),
            (lambda: stof.TableAttention("blocks", block_q=32, **plans), "table: block_q = 32; accepted: multiples of 64 up to "),
        ):  # fmt: skip
            with self.assertRaises(stof.InvalidArgument) as failed:
                call()
            self.assertTrue(str(failed.exception).startswith(said), failed.exception)

    def test_draft_trees(self):
        """Words for items of 3 and of 4 queries, each behind other keys; and one tree of 3 queries, of which the longer item
        knows nothing."""
        q, k = Array((2, 2, 4, D)), Array((2, 1, 9, D))
        plan = stof.Attention("causal", batch=2, heads=2, kv_heads=1, queries=4, keys=9, head_dim=D, dtype="f32", device="cpu", tree_queries=4)
        plan.prepare(4, 1)
        own, one = [[1, 2, 0, 0], [1, 3, 5, 9]], [1, -1, 6]
        for words, rows in ((Array((2, 4, 1), sum(own, []), "<i4"), own), (Array((3, 1), one, "<i4"), [one, [-1] * 4])):
            out, lse = nothing(2, 2, 4, D), nothing(2, 2, 4)
            plan.run(q, k, k, out=out, lse=lse, q_lengths=[3, 4], kv_lengths=[9, 6], tree=words)
            for b, (queries, before) in enumerate(((3, 6), (4, 2))):
                for i in range(queries):
                    seen = [*range(before), *(before + j for j in range(i + 1) if rows[b][i] >> j & 1)]
                    keys = [columns(k, b, 0, j) for j in seen]
                    for h in range(2):
                        self.expect(out, lse, attended(columns(q, b, h, i), keys, keys, 1 / math.sqrt(D)), (b, h, i), (b, h, i))

    def test_plans_are_kept(self):
        q, k = Array((1, 2, 5, D)), Array((1, 1, 5, D))
        stof.clear_plans()
        from stof.plans import planned

        for _ in range(2):
            stof.attention(q, k, k, "causal", out=nothing(1, 2, 5, D))
        stof.attention(q, k, k, stof.Mask("causal"), out=nothing(1, 2, 5, D), softcap=3.0)
        self.assertEqual((planned.cache_info().hits, planned.cache_info().misses), (1, 2))
        stof.clear_plans()

    def test_decoding_has_a_plan_for_many_lengths(self):
        from stof.plans import planned

        q = Array((1, 2, 1, D))
        ids = lambda keys: stof.Mask.document_ids(Array((keys,), [j // 200 for j in range(keys)], "<i4"))
        for made, plans, allowed in ((lambda _: "causal & window(250)", 2, lambda j, last: last - j <= 250),
                                     (ids, 4, lambda j, last: j // 200 == last // 200)):  # fmt: skip
            stof.clear_plans()
            for keys in (254, 256, 257, 303):
                mask, k, out = made(keys), Array((1, 1, keys, D)), nothing(1, 2, 1, D)
                stof.attention(q, k, k, mask, out=out)
                seen = [columns(k, 0, 0, j) for j in range(keys) if allowed(j, keys - 1)]
                for h in range(2):
                    self.expect(out, None, attended(columns(q, 0, h, 0), seen, seen, 1 / math.sqrt(D)), (0, h, 0))
            self.assertEqual(planned.cache_info().currsize, plans)
        stof.clear_plans()
        mask, k = ids(303), Array((1, 1, 303, D))
        for _ in range(3):  # what is no mask of 512 keys is tried once
            stof.attention(q, k, k, mask, out=nothing(1, 2, 1, D))
        self.assertEqual((planned.cache_info().misses, planned.cache_info().hits), (2, 2))
        stof.clear_plans()

    def test_errors(self):
        plan = stof.Attention("all", batch=2, heads=2, kv_heads=1, queries=4, keys=4, head_dim=D, dtype="f32", device="cpu")
        q, k, out = Array((2, 2, 4, D)), Array((2, 1, 4, D)), nothing(2, 2, 4, D)
        table, fixed = Array((2, 1), [0, 0], "<i4"), Array((2, 2, 4, D))
        fixed.__array_interface__["data"] = (fixed.__array_interface__["data"][0], True)
        for call, said in (
            (lambda: plan.run([1], k, k), "q is of type list; accepted: torch.Tensor, numpy.ndarray"),
            (lambda: plan.run(Array((2, 3, 4, D)), k, k, out=out), "q is [2, 3, 4, 8]; accepted: [B, H, N, D] with 2 heads and D 8, as planned"),
            (lambda: plan.run(q, q, q, out=out), "k is [2, 2, 4, 8]; accepted: [B, Hkv, M, D] with 1 heads and D 8, as planned"),
            (lambda: plan.run(q, k, Array((2, 1, 3, D)), out=out), "q [2, 2, 4, 8], k [2, 1, 4, 8], v [2, 1, 3, 8]; accepted: k and v [B, Hkv, M, D], alike"),
            (lambda: plan.run(q, k, k, out=Array((2, 2, 3, D))), "out [2, 2, 3, 8] of f32 on cpu; accepted: [2, 2, 4, 8], dtype and device of q"),
            (lambda: plan.run(q, k, k, out=out, lse=Array((2, 2, 3))), "lse [2, 2, 3] of f32 on cpu; accepted: f32 [2, 2, 4] on cpu"),
            (lambda: plan.run(Array((2, 2, 4, D), [0] * 128, "<i4"), k, k, out=out), "q is i32 on cpu; accepted: f32, as planned, on cpu, where q is"),
            (lambda: plan.run(q, k, k, out=out, q_lengths=[4]), "q_lengths has 1 numbers; accepted: 2"),
            (lambda: plan.run(q, k, k, out=out, q_lengths=Array((2,), [1.0, 1.0])), "q_lengths [2] of f32; accepted: i32 [2], contiguous"),
            (lambda: plan.run(q, k, k, out=out, q_lengths=[5, 4]), "attention: "),
            (lambda: plan.run(q, k, k, out=out, kv_lengths=[4, 2**32 + 3]), "kv_lengths[1] is 4294967299; accepted: integers from 0 to 2147483647"),
            (lambda: plan.run(q, k, k, out=out, q_lengths=[4.0, 4]), "q_lengths[0] is 4.0; accepted: integers from 0 to 2147483647"),
            (lambda: plan.run(q, k, k, out=out, q_lengths=4), "q_lengths is of type int; accepted: a sequence of integers, an array of int32"),
            (lambda: plan.run(Array((4, 2, D)), Array((4, 1, D)), Array((4, 1, D)), out=out, cu_q=3), "cu_q is of type int; accepted: "),
            (lambda: plan.run(q, k, k, out=out, scale="1"), "scale is '1', of type str; accepted: a number"),
            (lambda: plan.run(q, k, k, out=out, softcap=[1]), "softcap is [1], of type list; accepted: a number"),
            (lambda: plan.run(q, Array((1, 1, 16, D)), Array((1, 1, 16, D)), out=out, page_table=Array((1, 1), [0], "<i4")),
             "page_table [1, 1] of i32 on cpu; accepted: i32 [2, pages of an item] on cpu"),
            (lambda: plan.run(q, Array((1, 1, 15, D)), Array((1, 1, 15, D)), out=out, page_table=table, kv_lengths=[1, 1]),
             "stof_plan_run: call.page_size is 15; accepted: 16, 32, 64, 128, 256"),
            (lambda: plan.run(q, k, k, out=Array((2, 2, 4, D), strides=(64, 32, 1, 4))), "out has strides [64, 32, 1, 4]; accepted: any whose last is 1"),
            (lambda: plan.run(q, k, k, out=fixed), "out may only be read"),
            (lambda: plan.run(q, Array((9, 1, 16, D)), Array((9, 1, 16, D)), out=out, page_table=Array((2, 2), [0] * 4, "<i4", (1, 2))),
             "page_table has strides [1, 2]; accepted: any whose last is 1"),
            (lambda: stof.Attention("all", batch=1, heads=1, queries=1, keys=1, head_dim=8, dtype="f64"), "dtype 'f64'; accepted: f32, f16, bf16"),
            (lambda: stof.Attention("all", batch=1, heads=1, queries=1, keys=1, head_dim=8, device=0),
             "device 0; accepted: cpu, cuda, cuda:N, auto, a torch.device"),
            (lambda: stof.Attention("all", batch=1.0, heads=1, queries=1, keys=1, head_dim=8), "batch is 1.0, of type float; accepted: an integer"),
            (lambda: stof.Attention("all", batch=1, heads=1, queries=2**63, keys=1, head_dim=8), f"queries = {2**63}; accepted: -{2**63 - 1} to {2**63 - 1}"),
            (lambda: stof.Attention("all", batch=1, heads=1, queries=1, keys=1, head_dim=8, kernel=3), "kernel of type int; accepted: None, the name of one"),
            (lambda: plan.prepare("1", 1), "queries is '1', of type str; accepted: an integer"),
            (lambda: stof.TableAttention("bits", table_heads=None, batch=1, heads=1, queries=1, keys=1, head_dim=8),
             "table_heads is None, of type NoneType; accepted: an integer"),
            (lambda: stof.attention(Array((2, 4, D)), k, k), "q [2, 4, 8], k [2, 1, 4, 8]; accepted: [B, H, N, D], [B, Hkv, M, D]"),
            (lambda: stof.attention(Array((2, 2, 4, D), [0] * 128, "<i4"), k, k), "q is of dtype i32; accepted: f32, f16, bf16"),
        ):  # fmt: skip
            with self.assertRaises(stof.InvalidArgument) as failed:
                call()
            self.assertTrue(str(failed.exception).startswith(said), failed.exception)

    def test_numbers_of_a_call_that_are_none(self):
        plan = stof.Attention("all", batch=2, heads=2, kv_heads=1, queries=4, keys=4, head_dim=D, dtype="f32", device="cpu")
        q, k, out = Array((2, 2, 4, D)), Array((2, 1, 4, D)), nothing(2, 2, 4, D)
        for call, said in (
            (lambda: plan.run(q, k, k, out=out, kv_lengths={3, 4}), "kv_lengths is of type set; accepted: a sequence of integers, an array of int32"),
            (lambda: plan.run(q, k, k, out=out, kv_lengths={0: 4, 1: 4}), "kv_lengths is of type dict; accepted: a sequence of integers, an array of int32"),
            (lambda: plan.run(Array((4, 2, D)), Array((4, 1, D)), Array((4, 1, D)), out=out, cu_q=[]), "cu_q has 0 numbers; accepted: B + 1, "),
            (lambda: plan.run(q, Array((1, 1, 4, D)), Array((1, 1, 4, D)), out=out),
             "q [2, 2, 4, 8], k [1, 1, 4, 8], v [1, 1, 4, 8]; accepted: k and v [B, Hkv, M, D], alike, where B is 2"),
            (lambda: plan.run(q, k, k, out=out, check_pages="x"), "check_pages is 'x', of type str; accepted: True, False"),
            (lambda: plan.run(q, k, k, out=out, scale=10**400), "scale: int too large to convert to float; accepted: a number"),
        ):
            with self.assertRaises(stof.InvalidArgument) as failed:
                call()
            self.assertTrue(str(failed.exception).startswith(said), failed.exception)

    def test_a_plan_is_not_copied(self):
        """A copy would be of the library's address, which the first of both frees."""
        shape = {"batch": 1, "heads": 1, "queries": 1, "keys": 1, "head_dim": 8, "dtype": "f32", "device": "cpu"}
        for plan in (stof.Attention("all", **shape), stof.TableAttention("bits", **shape)):
            for work in (copy.copy, copy.deepcopy, pickle.dumps):
                with self.assertRaisesRegex(TypeError, f"^a stof.{type(plan).__name__} is neither copied nor pickled: any number of threads may run one, "):
                    work(plan)

    def test_exceptions_have_the_name_that_users_have(self):
        with self.assertRaises(stof.InvalidArgument) as failed:
            stof.Mask("casual")
        said = "".join(traceback.format_exception_only(failed.exception))
        self.assertTrue(said.startswith("stof.InvalidArgument: mask: unknown term 'casual'"), said)
        for kind in (stof.Failure, stof.InvalidArgument, stof.Unsupported, stof.DeviceFailure):
            again = pickle.loads(pickle.dumps(kind(2, "what")))  # as other processes send it
            self.assertEqual((type(again), again.status, again.text, str(again), kind.__module__), (kind, 2, "what", "what", "stof"))

    def test_the_version(self):
        self.assertRegex(stof.__version__, r"^\d+\.\d+\.\d+$")
        self.assertFalse(hasattr(stof, "none"))


if __name__ == "__main__":
    unittest.main()
