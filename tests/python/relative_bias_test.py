#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Relative position biases of python/stof against their definition: on arrays that have NumPy's interface, and, where there is
PyTorch, on tensors of the CPU and of a GPU.

usage: relative_bias_test.py LIBSTOF.SO
"""

import copy
import gc
import math
import pickle
import random
import unittest
import weakref

from given import Array, attended, nothing

import stof

try:
    import numpy
    import torch
except ImportError:
    torch = None

D = 8
CUDA = torch is not None and torch.cuda.is_available()
MASKS = {"all": lambda p, j: True, "causal": lambda p, j: j <= p, "window(3)": lambda p, j: abs(p - j) <= 3,
         "causal & window(5)": lambda p, j: 0 <= p - j <= 5}  # fmt: skip


def random_values(heads, reach):
    return [[random.gauss(0, 2) for _ in range(2 * reach + 1)] for _ in range(heads)]


def value_at(values, head, distance):
    """Of a key so far behind its query."""
    reach = len(values[head]) // 2
    return values[head][reach + max(-reach, min(reach, distance))]


def columns(array, *place):
    return [array[(*place, i)] for i in range(D)]


class Arrays(unittest.TestCase):
    def setUp(self):
        random.seed(1)

    def expect(self, got, q, k, v, b, h, row, position, seen, added, **numbers):
        """got: the out and lse of that row. added: by the distance of a key."""
        kv_head = h // (q.shape[1] // k.shape[1])
        of = lambda one: [columns(one, b, kv_head, j) for j in seen]
        biases = [added(j - position) for j in seen]
        values, logarithm = attended(columns(q, b, h, row), of(k), of(v), numbers.get("scale", 1 / math.sqrt(D)), numbers.get("softcap"), biases)
        for one, wanted in zip([*got[0], got[1]], [*values, logarithm], strict=True):
            self.assertTrue(one == wanted or abs(one - wanted) < 5e-6, (one, wanted, b, h, row))

    def expect_all(self, out, lse, q, k, v, allowed, added, **numbers):
        batch, heads, queries, _ = q.shape
        keys = k.shape[2]
        for b in range(batch):
            for h in range(heads):
                for i in range(queries):
                    p = i + keys - queries
                    seen = [j for j in range(keys) if allowed(p, j)]
                    self.expect((columns(out, b, h, i), lse[(b, h, i)]), q, k, v, b, h, i, p, seen, lambda d, h=h: added(h, d), **numbers)

    def test_every_mask_and_reach(self):
        """Several items, heads that share keys, as many and fewer queries than keys; a reach of which both ends are passed, one that no
        key passes, and none, whose one value changes nothing but the logarithm."""
        for queries, keys in ((9, 9), (3, 14), (1, 7)):
            q, k, v = Array((2, 4, queries, D)), Array((2, 2, keys, D)), Array((2, 2, keys, D))
            for mask, allowed in MASKS.items():
                plan = stof.Attention(mask, batch=2, heads=4, kv_heads=2, queries=queries, keys=keys, head_dim=D, dtype="f32", device="cpu", biased=True)
                for reach in (0, 2, 13):
                    with self.subTest(f"{queries} of {keys}, {mask}, {reach}"):
                        values, out, lse = random_values(4, reach), nothing(2, 4, queries, D), nothing(2, 4, queries)
                        bias = stof.RelativeBias(values, device="cpu")
                        self.assertEqual((bias.heads, bias.reach), (4, reach))
                        plan.run(q, k, v, out=out, lse=lse, relative_bias=bias)
                        self.expect_all(out, lse, q, k, v, allowed, lambda h, d, values=values: value_at(values, h, d))

    def test_behind_and_in_front(self):
        """The one value that is not 0 is of the next key, and those behind it."""
        q, k, v = Array((1, 1, 3, D), [0.0] * (3 * D)), Array((1, 1, 3, D)), Array((1, 1, 3, D), [float(j == 1) for j in range(3) for _ in range(D)])
        out = nothing(1, 1, 3, D)
        stof.attention(q, k, v, out=out, relative_bias=stof.RelativeBias([[0, 0, math.log(2)]], device="cpu"))
        for i, weight in enumerate((2 / 5, 1 / 4, 1 / 3)):
            self.assertAlmostEqual(out[(0, 0, i, 0)], weight, delta=1e-6)

    def test_alibi(self):
        slopes = [2.0 ** -(h + 1) for h in range(4)]
        q, k, v = Array((1, 4, 5, D)), Array((1, 1, 11, D)), Array((1, 1, 11, D))
        for mask, reach in (("causal", 10), ("all", 10), ("causal", 4)):
            bias, out, lse = stof.RelativeBias.alibi(slopes, reach, device="cpu"), nothing(1, 4, 5, D), nothing(1, 4, 5)
            self.assertEqual((bias.heads, bias.reach), (4, reach))
            plan = stof.Attention(mask, batch=1, heads=4, kv_heads=1, queries=5, keys=11, head_dim=D, dtype="f32", device="cpu", biased=True)
            plan.run(q, k, v, out=out, lse=lse, relative_bias=bias)
            self.expect_all(out, lse, q, k, v, MASKS[mask], lambda h, d, reach=reach: -slopes[h] * min(abs(d), reach))

    def test_behind_a_cap(self):
        """Scores are scaled, then capped, then the bias is added."""
        q, k, v, values = Array((1, 2, 6, D)), Array((1, 2, 6, D)), Array((1, 2, 6, D)), random_values(2, 3)
        plan = stof.Attention("causal", batch=1, heads=2, queries=6, keys=6, head_dim=D, dtype="f32", device="cpu", capped=True, biased=True)
        out, lse = nothing(1, 2, 6, D), nothing(1, 2, 6)
        plan.run(q, k, v, out=out, lse=lse, scale=3.0, softcap=2.0, relative_bias=stof.RelativeBias(values, device="cpu"))
        self.expect_all(out, lse, q, k, v, MASKS["causal"], lambda h, d: value_at(values, h, d), scale=3.0, softcap=2.0)

    def test_items_of_any_length(self):
        """The last query of each stands at its own last key; and keys in pages, which lie in any order."""
        q, k, v, values = Array((2, 2, 4, D)), Array((2, 1, 9, D)), Array((2, 1, 9, D)), random_values(2, 3)
        bias = stof.RelativeBias(values, device="cpu")
        plan = stof.Attention("causal", batch=2, heads=2, kv_heads=1, queries=4, keys=9, head_dim=D, dtype="f32", device="cpu", biased=True)
        plan.prepare(4, 1)
        out, lse = nothing(2, 2, 4, D), nothing(2, 2, 4)
        plan.run(q, k, v, out=out, lse=lse, q_lengths=[2, 4], kv_lengths=[9, 6], relative_bias=bias)
        for b, (queries, keys) in enumerate(((2, 9), (4, 6))):
            for h in range(2):
                for i in range(queries):
                    p = i + keys - queries
                    self.expect((columns(out, b, h, i), lse[(b, h, i)]), q, k, v, b, h, i, p, range(p + 1), lambda d, h=h: value_at(values, h, d))

    def test_keys_in_pages(self):
        q, pool, out, lse, values = Array((2, 2, 1, D)), Array((5, 1, 16, D)), nothing(2, 2, 1, D), nothing(2, 2, 1), random_values(2, 6)
        plan = stof.Attention("causal", batch=2, heads=2, kv_heads=1, queries=1, keys=32, head_dim=D, dtype="f32", device="cpu", biased=True)
        plan.prepare(1, 1)
        table, lengths = [[3, 0], [4, 1]], [20, 3]
        plan.run(q, pool, pool, out=out, lse=lse, kv_lengths=lengths, page_table=Array((2, 2), sum(table, []), "<i4"),
                 relative_bias=stof.RelativeBias(values, device="cpu"))  # fmt: skip
        for b in range(2):
            keys = [columns(pool, table[b][j // 16], 0, j % 16) for j in range(lengths[b])]
            for h in range(2):
                biases = [value_at(values, h, j - (lengths[b] - 1)) for j in range(lengths[b])]
                wanted, logarithm = attended(columns(q, b, h, 0), keys, keys, 1 / math.sqrt(D), None, biases)
                for one, of_one in zip([*columns(out, b, h, 0), lse[(b, h, 0)]], [*wanted, logarithm], strict=True):
                    self.assertAlmostEqual(one, of_one, delta=5e-6)

    def test_a_biased_plan_may_run_without(self):
        q, k = Array((1, 2, 5, D)), Array((1, 2, 5, D))
        plan = stof.Attention("causal", batch=1, heads=2, queries=5, keys=5, head_dim=D, dtype="f32", device="cpu", biased=True)
        out, lse = nothing(1, 2, 5, D), nothing(1, 2, 5)
        for bias in (stof.RelativeBias(random_values(2, 2), device="cpu"), None):
            plan.run(q, k, k, out=out, lse=lse, relative_bias=bias)
        self.expect_all(out, lse, q, k, k, MASKS["causal"], lambda h, d: 0)

    def test_values_of_any_kind(self):
        """Of sequences, and of arrays with NumPy's interface; each call has the one that it is given."""
        q, k, v, values = Array((1, 2, 5, D)), Array((1, 2, 5, D)), Array((1, 2, 5, D)), random_values(2, 2)
        for of in (values, tuple(map(tuple, values)), Array((2, 5), sum(values, [])), [[1, 2, 3], [4, 5, 6]]):
            bias, out = stof.RelativeBias(of, device="cpu"), nothing(1, 2, 5, D)
            known = of if isinstance(of, list) else values
            stof.attention(q, k, v, "causal", out=out, relative_bias=bias)
            for h in range(2):
                for i in range(5):
                    seen = [columns(v, 0, h, j) for j in range(i + 1)]
                    biases = [value_at(known, h, j - i) for j in range(i + 1)]
                    wanted, _ = attended(columns(q, 0, h, i), [columns(k, 0, h, j) for j in range(i + 1)], seen, 1 / math.sqrt(D), None, biases)
                    for one, of_one in zip(columns(out, 0, h, i), wanted, strict=True):
                        self.assertAlmostEqual(one, of_one, delta=5e-6)

    def test_plans_are_kept_apart(self):
        from stof.plans import planned

        q, bias = Array((1, 2, 5, D)), stof.RelativeBias(random_values(2, 2), device="cpu")
        stof.clear_plans()
        for given in (None, bias, bias, stof.RelativeBias(random_values(2, 9), device="cpu"), None):
            stof.attention(q, q, q, "causal", out=nothing(1, 2, 5, D), relative_bias=given)
        self.assertEqual((planned.cache_info().hits, planned.cache_info().misses), (3, 2))
        stof.clear_plans()

    def test_no_plan_keeps_it(self):
        bias = stof.RelativeBias(random_values(2, 2), device="cpu")
        plan = stof.Attention("causal", batch=1, heads=2, queries=5, keys=5, head_dim=D, dtype="f32", device="cpu", biased=True)
        q, gone = Array((1, 2, 5, D)), weakref.ref(bias)
        plan.run(q, q, q, out=nothing(1, 2, 5, D), relative_bias=bias)
        del bias
        gc.collect()
        self.assertIsNone(gone())

    def test_it_is_not_copied(self):
        bias = stof.RelativeBias(random_values(2, 2), device="cpu")
        self.assertEqual(repr(bias), "RelativeBias(heads=2, reach=2)")
        for work in (copy.copy, copy.deepcopy, pickle.dumps):
            with self.assertRaisesRegex(TypeError, "^a stof.RelativeBias is neither copied nor pickled: any number of threads may use one, "):
                work(bias)


class Errors(unittest.TestCase):
    def expect(self, call, said):
        with self.assertRaises(stof.InvalidArgument) as failed:
            call()
        self.assertEqual(str(failed.exception), said)

    def test_of_values(self):
        of = lambda values, **more: lambda: stof.RelativeBias(values, device="cpu", **more)
        accepted = "; accepted: [heads, 2 reach + 1], an odd number for each head"
        kinds = "; accepted: torch.Tensor, numpy.ndarray, sequences of as many numbers for each head"
        for call, said in (
            (of([[1, 2], [3, 4]]), "values [2, 2]" + accepted),
            (of([]), "values [0, 0]" + accepted),
            (of([[], []]), "values [2, 0]" + accepted),
            (of(Array((2, 4))), "values [2, 4]" + accepted),
            (of(Array((3,))), "values [3]" + accepted),
            (of([[1, 2, 3], [4]]), "values has rows of 1 and 3 numbers; accepted: as many for each head"),
            (of([[1, "2", 3]]), "values[0][1] is '2', of type str; accepted: a number"),
            (of([[1, 2, math.nan]]), "values[0][2] = nan; accepted: a finite number"),
            (of([[1, 2, 3], [-math.inf, 2, 3]]), "values[1][0] = -inf; accepted: a finite number"),
            (of([1, 2, 3]), "values[0] is of type int" + kinds),
            (of(3.0), "values is of type float" + kinds),
            (of(None), "values is of type NoneType" + kinds),
            (of(Array((1, 3), [1, 2, 3], "<i4")), "values [1, 3] of i32 with strides [3, 1]; accepted: f32, contiguous"),
            (of(Array((2, 3), strides=(1, 2))), "values [2, 3] of f32 with strides [1, 2]; accepted: f32, contiguous"),
            (lambda: stof.RelativeBias([[1.0]], device=0), "device 0; accepted: cpu, cuda, cuda:N, auto, a torch.device"),
            (lambda: stof.RelativeBias.alibi([0.5], -1), "reach = -1; accepted: 0 to 16777216"),
            (lambda: stof.RelativeBias.alibi([0.5], 2**24 + 1), "reach = 16777217; accepted: 0 to 16777216"),
            (lambda: stof.RelativeBias.alibi([0.5], 1.0), "reach is 1.0, of type float; accepted: an integer"),
            (lambda: stof.RelativeBias.alibi(0.5, 3), "slopes is of type float; accepted: a number for each head"),
            (lambda: stof.RelativeBias.alibi({0.5: 1}, 3), "slopes is of type dict; accepted: a number for each head"),
            (of([{1.0, 2.0, 3.0}]), "values[0] is of type set; accepted: torch.Tensor, numpy.ndarray, sequences of as many numbers for each head"),
            (lambda: stof.RelativeBias.alibi([0.5, "1"], 3), "slopes[1] is '1', of type str; accepted: a number"),
            (lambda: stof.RelativeBias.alibi([], 3), "values [0, 7]" + accepted),
        ):
            self.expect(call, said)

    def test_of_values_that_are_no_numbers(self):
        """Which the library finds."""
        for wrong in (math.nan, math.inf, -math.inf):
            with self.assertRaisesRegex(stof.InvalidArgument, "^relative bias: .* of head 1 at distance -1; accepted: "):
                stof.RelativeBias(Array((2, 3), [0, 0, 0, wrong, 0, 0]), device="cpu")

    def test_under_a_table(self):
        shape = {"batch": 1, "heads": 2, "queries": 5, "keys": 7, "head_dim": D, "dtype": "f32", "device": "cpu", "biased": True}
        q, k, bias = Array((1, 2, 5, D)), Array((1, 2, 7, D)), stof.RelativeBias(random_values(2, 3), device="cpu")
        table, plan = stof.TableAttention("bits", limit="causal", **shape), stof.Attention("causal", **shape)
        table.update(Array((1, 1, 5, 7), [1] * 35, "|b1"))
        out, same = nothing(1, 2, 5, D), nothing(1, 2, 5, D)
        table.run(q, k, k, out=out, relative_bias=bias)
        plan.run(q, k, k, out=same, relative_bias=bias)
        for one, other in zip(out.numbers, same.numbers, strict=True):
            self.assertAlmostEqual(one, other, delta=1e-6)

    def test_of_calls(self):
        q, k, out, shape = Array((1, 2, 4, D)), Array((1, 2, 4, D)), nothing(1, 2, 4, D), {"batch": 1, "heads": 2, "queries": 4, "keys": 4,
                                                                                         "head_dim": D, "dtype": "f32", "device": "cpu"}  # fmt: skip
        plan, without = stof.Attention("causal", biased=True, **shape), stof.Attention("causal", **shape)
        table = stof.TableAttention("bits", **shape)
        bias, of_three = stof.RelativeBias(random_values(2, 3), device="cpu"), stof.RelativeBias(random_values(3, 3), device="cpu")
        for_none = "relative_bias with a plan for none; accepted where Attention(..., biased=True) says that one will come"
        for call, said in (
            (lambda: plan.run(q, k, k, out=out, relative_bias=[[0.0]]), "relative_bias is of type list; accepted: None, a stof.RelativeBias"),
            (lambda: stof.attention(q, k, k, out=out, relative_bias=3), "relative_bias is of type int; accepted: None, a stof.RelativeBias"),
            (lambda: without.run(q, k, k, out=out, relative_bias=bias), for_none),
            (lambda: table.run(q, k, k, out=out, relative_bias=bias), for_none),
            (lambda: plan.run(q, k, k, out=out, relative_bias=of_three), "attention: the relative bias has 3 heads; this plan takes 2"),
        ):
            self.expect(call, said)
        self.assertTrue(all(map(math.isnan, out.numbers)))


FAR = {"float32": 2e-5, "float16": 2e-3, "bfloat16": 1.5e-2}


@unittest.skipUnless(torch, "there is no torch")
class Tensors(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def made(self, device, dtype, queries=130, keys=200, batch=2, heads=6, kv_heads=2, dim=64):
        make = lambda *shape: torch.randn(shape).to(device, dtype)
        return make(batch, heads, queries, dim), make(batch, kv_heads, keys, dim), make(batch, kv_heads, keys, dim)

    def defined(self, q, k, v, allowed, values):
        """In double precision. allowed: of positions and keys."""
        q, k, v, values = (one.double().cpu() for one in (q, k, v, values))
        k, v = (one.repeat_interleave(q.shape[1] // k.shape[1], 1) for one in (k, v))
        p, j = torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2], torch.arange(k.shape[2])[None]
        reach = values.shape[1] // 2
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + values[:, reach + (j - p).clamp(-reach, reach)]
        scores.masked_fill_(~allowed(p, j), -math.inf)
        return torch.softmax(scores, -1) @ v, torch.logsumexp(scores, -1)

    def expect(self, out, wanted):
        error = (out.double().cpu() - wanted).norm() / wanted.norm()
        self.assertLess(error.item(), FAR[str(out.dtype).removeprefix("torch.")])

    def test_every_dtype_and_device(self):
        masks = {"all": lambda p, j: j >= 0, "causal": lambda p, j: j <= p, "window(40)": lambda p, j: (p - j).abs() <= 40}
        for device in ["cpu"] + ["cuda"] * CUDA:
            for name in FAR:
                for queries, keys in ((130, 200), (256, 256), (1, 200)):
                    q, k, v = self.made(device, getattr(torch, name), queries, keys)
                    for reach in (16, 128, 300):
                        values = 2 * torch.randn(6, 2 * reach + 1)
                        bias = stof.RelativeBias(values, device=q.device)
                        for mask, allowed in masks.items():
                            with self.subTest(f"{device} {name} {queries} of {keys} {mask} {reach}"):
                                out, lse = stof.attention(q, k, v, mask, return_lse=True, relative_bias=bias)
                                wanted, logarithms = self.defined(q, k, v, allowed, values)
                                self.expect(out, wanted)
                                self.assertLess((lse.double().cpu() - logarithms).abs().max().item(), 2e-3)

    def test_values_of_any_kind(self):
        q, k, v = self.made("cpu", torch.float32, 5, 9, heads=2)
        exact = torch.randint(-9, 9, (2, 7)) / 4  # which every type holds
        wanted, _ = self.defined(q, k, v, lambda p, j: j <= p, exact)
        turned = exact.T.contiguous().T
        for values in (exact, exact.double(), exact.half(), exact.bfloat16(), turned, exact.numpy(), exact.double().numpy(), exact.half().numpy(),
                       turned.numpy(), exact.tolist(), list(exact), *([exact.cuda()] if CUDA else [])):  # fmt: skip
            self.expect(stof.attention(q, k, v, "causal", relative_bias=stof.RelativeBias(values, device="cpu")), wanted)
        for values in (torch.ones(2, 3, dtype=torch.int64), numpy.ones((2, 3), int)):
            self.assertEqual(stof.RelativeBias(values, device="cpu").reach, 1)

    def test_alibi(self):
        q, k, v = self.made("cpu", torch.float32, 30, 70)
        slopes = 2.0 ** -torch.arange(1, 7)
        values = -slopes[:, None] * (torch.arange(-69, 70)).abs()
        wanted, _ = self.defined(q, k, v, lambda p, j: j <= p, values)
        for given in (slopes, slopes.numpy(), slopes.tolist()):
            self.expect(stof.attention(q, k, v, "causal", relative_bias=stof.RelativeBias.alibi(given, 69, device="cpu")), wanted)

    def test_errors(self):
        of = lambda values: lambda: stof.RelativeBias(values, device="cpu")
        accepted = "; accepted: [heads, 2 reach + 1], an odd number for each head"
        for call, said in (
            (of(torch.ones(2, 4)), "values [2, 4]" + accepted),
            (of(torch.ones(3)), "values [3]" + accepted),
            (of(numpy.ones((1, 2, 3))), "values [1, 2, 3]" + accepted),
            (of(torch.ones(2, 3, requires_grad=True)), "values requires a gradient, and there is no backward pass; call under torch.no_grad(), or detach it"),
            (of(torch.ones(2, 3, device="meta")), "values is on meta, where there are no numbers; accepted: a tensor of the CPU or of a GPU"),
            (lambda: stof.RelativeBias.alibi(torch.tensor(0.5), 3), "slopes is of type Tensor; accepted: a number for each head"),
            (lambda: stof.RelativeBias.alibi(numpy.array(0.5), 3), "slopes is of type ndarray; accepted: a number for each head"),
            (of(torch.ones(2, 3, dtype=torch.complex64)), "values is of dtype torch.complex64; accepted: f32"),
            (of(numpy.array([["a", "b", "c"]])), "values is of dtype <U1; accepted: f32"),
            (of(numpy.ma.masked_array([[1.0, 2, 3]])), "values is a numpy.ma.MaskedArray, whose mask would not be heeded; accepted: numpy.ndarray, "
                                                       "as its .filled() or .data"),
        ):  # fmt: skip
            with self.assertRaises(stof.InvalidArgument) as failed:
                call()
            self.assertTrue(str(failed.exception).startswith(said), failed.exception)
        for wrong in (torch.full((1, 3), math.nan), torch.full((1, 3), 1e300, dtype=torch.float64), numpy.full((1, 3), 1e300)):
            with self.assertRaisesRegex(stof.InvalidArgument, "^relative bias: .* of head 0 at distance "):
                of(wrong)()

    @unittest.skipUnless(CUDA, "no GPU")
    def test_of_another_device(self):
        q, k, v = self.made("cuda", torch.float16)
        with self.assertRaisesRegex(stof.InvalidArgument, "^attention: the relative bias is of cpu 0; this plan is of cuda 0$"):
            stof.attention(q, k, v, relative_bias=stof.RelativeBias(torch.zeros(6, 3), device="cpu"))
        q, k, v = self.made("cpu", torch.float32)
        with self.assertRaisesRegex(stof.InvalidArgument, "^attention: the relative bias is of cuda 0; this plan is of cpu 0$"):
            stof.attention(q, k, v, relative_bias=stof.RelativeBias(torch.zeros(6, 3), device="cuda"))

    @unittest.skipUnless(CUDA, "no GPU")
    def test_one_that_goes_while_a_kernel_reads_it(self):
        q, k, v = self.made("cuda", torch.float16, 2048, 2048, 4, 12, 12)
        values = torch.randn(12, 257)
        wanted = stof.attention(q, k, v, relative_bias=stof.RelativeBias(values, device="cuda"))  # compiles, too
        torch.cuda.synchronize()
        bias = stof.RelativeBias(values, device="cuda")
        found = [stof.attention(q, k, v, relative_bias=bias) for _ in range(20)]
        del bias
        others = [stof.RelativeBias(torch.full((12, 257), 9.0 + i).cumsum(1), device="cuda") for i in range(8)]  # may have its memory
        self.assertTrue(all(torch.equal(out, wanted) for out in found))
        del others

    @unittest.skipUnless(CUDA, "no GPU")
    def test_in_a_graph(self):
        q, k, v = self.made("cuda", torch.float16)
        values = torch.randn(6, 65)
        bias, out = stof.RelativeBias(values, device="cuda"), torch.empty_like(q)
        plan = stof.Attention("causal", batch=2, heads=6, kv_heads=2, queries=130, keys=200, head_dim=64, device="cuda", biased=True)
        stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            plan.run(q, k, v, out=out, relative_bias=bias)
            with torch.cuda.graph(graph, stream=stream):
                plan.run(q, k, v, out=out, relative_bias=bias)
            q.copy_(torch.randn_like(q))
            graph.replay()
            stream.synchronize()
        self.expect(out, self.defined(q, k, v, lambda p, j: j <= p, values)[0])


if __name__ == "__main__":
    unittest.main()
