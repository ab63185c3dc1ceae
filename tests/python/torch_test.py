#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attention of python/stof on tensors of PyTorch, of the CPU and of a GPU where there is one, and on NumPy's arrays.

usage: torch_test.py LIBSTOF.SO    exit status 77 where there is no PyTorch
"""

import math
import re
import sys
import unittest
import warnings
from pathlib import Path

import given  # noqa: F401  (finds the package)

try:
    import numpy
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx
except ImportError:
    sys.exit(77)

import stof

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
FAR = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1.5e-2}


def tensors(device, dtype, batch=2, heads=6, kv_heads=2, queries=130, keys=200, dim=64):
    torch.manual_seed(0)
    make = lambda *shape: torch.randn(shape, dtype=torch.float32).to(device, dtype)
    return make(batch, heads, queries, dim), make(batch, kv_heads, keys, dim), make(batch, kv_heads, keys, dim)


def defined(q, k, v, allowed):
    """In double precision; rows without a key are 0."""
    q, k, v = (one.double().cpu() for one in (q, k, v))
    k, v = (one.repeat_interleave(q.shape[1] // k.shape[1], 1) for one in (k, v))
    scores = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(~allowed, -math.inf)
    return torch.nan_to_num(torch.softmax(scores, -1)) @ v, torch.logsumexp(scores, -1)


def positions(queries, keys):
    return torch.arange(queries)[:, None] + keys - queries, torch.arange(keys)[None]


class Tensors(unittest.TestCase):
    def expect(self, out, wanted, dtype):
        error = (out.double().cpu() - wanted).norm() / wanted.norm()
        self.assertLess(error.item(), FAR[dtype])

    def test_every_dtype_and_device(self):
        i, j = positions(130, 200)
        for device in DEVICES:
            for dtype in FAR:
                with self.subTest(f"{device} {dtype}"):
                    q, k, v = tensors(device, dtype)
                    out, lse = stof.attention(q, k, v, "causal & window(40)", return_lse=True)
                    wanted, logarithms = defined(q, k, v, (j <= i) & (i - j <= 40))
                    self.assertEqual((out.dtype, out.device, lse.dtype), (dtype, q.device, torch.float32))
                    self.expect(out, wanted, dtype)
                    self.assertLess((lse.double().cpu() - logarithms).abs().max().item(), 1e-3)

    def test_functions_and_arrays_as_masks(self):
        i, j = positions(130, 200)
        seen = torch.rand(130, 200) < 0.3
        seen[7] = False
        for device in DEVICES:
            q, k, v = tensors(device, torch.float16)
            for mask, allowed in (
                (stof.Mask.where(lambda b, h, q, k: (q - k) % 3 == 0), (i - j) % 3 == 0),
                (stof.Mask.where(lambda b, h, q, k: torch.logical_and(torch.abs(q - k) < 9, k <= q)), ((i - j).abs() < 9) & (j <= i)),
                (stof.Mask.bits(seen), seen),
                (stof.Mask.bits(seen.numpy()) | "sink(3)", seen | (j < 3)),
            ):
                self.expect(stof.attention(q, k, v, mask), defined(q, k, v, allowed)[0], torch.float16)

    def test_functions_that_others_made(self):
        """In the words of torch, FlexAttention and attention-gym, against what they say of numbers."""
        from torch.nn.attention import flex_attention as flex

        causal, near = lambda b, h, q, k: q >= k, lambda b, h, q, k: torch.lt(q - k, 40)
        lengths, two, which = torch.tensor([30, 190]), torch.tensor(2), torch.tensor([True, False])
        div = lambda one: torch.div(one, 7, rounding_mode="floor")

        def natten(b, h, q, k):
            x, y = (q % 20).clamp(1, 18) - k % 20, torch.clamp(q // 20, min=1, max=8) - k // 20
            return (x.abs() <= 1) & (y.abs() <= 1)

        b, h = torch.arange(2)[:, None, None, None], torch.arange(6)[:, None, None]
        i, j = positions(130, 200)
        q, k, v = tensors("cpu", torch.float32)
        for function in (
            flex.and_masks(causal, near), flex.or_masks(causal, near), flex.noop_mask, natten, lambda b, h, q, k: div(q) == div(k),
            lambda b, h, q, k: torch.where(h < 2, q >= k, torch.remainder(q - k, 3) == 0), lambda b, h, q, k: torch.where(b < 1, q, 9) < k,
            lambda b, h, q, k: (k < lengths[b]) & (q >= k), lambda b, h, q, k: which[b] | (two * k <= q), lambda b, h, q, k: two < q - k,
            lambda b, h, q, k: torch.logical_and(q - k, torch.floor_divide(k, two) % 2), lambda b, h, q, k: q - k < numpy.int64(9),
            lambda b, h, q, k: (q - k).to(torch.bool) & ((q >= k).to(torch.int32) + 1 == 2),
        ):  # fmt: skip
            allowed = torch.as_tensor(function(b, h, i, j)).bool().expand(2, 6, 130, 200)
            mask = stof.Mask.where(function)
            with self.subTest(str(mask)):
                self.expect(stof.attention(q, k, v, mask), defined(q, k, v, allowed)[0], torch.float32)
        with self.assertRaisesRegex(stof.InvalidArgument, "by zero"):  # as an index beyond the end
            stof.attention(*(one.repeat(2, 1, 1, 1) for one in (q, k, v)), stof.Mask.where(lambda b, h, q, k: k < lengths[b]))

    def test_any_strides_and_given_outputs(self):
        for device in DEVICES:
            q, k, v = tensors(device, torch.float16, queries=200)
            packed = torch.cat([q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)], 2)  # [B, S, H + 2 Hkv, D]
            out = torch.empty_like(packed[:, :, :6])
            views = (packed[:, :, :6], packed[:, :, 6:8], packed[:, :, 8:])
            made = stof.attention(*(one.transpose(1, 2) for one in views), "all", out=out.transpose(1, 2))
            self.assertEqual(made.data_ptr(), out.data_ptr())
            self.expect(out.transpose(1, 2), defined(q, k, v, torch.ones(200, 200, dtype=torch.bool))[0], torch.float16)

    def test_outputs_in_the_memory_of_inputs(self):
        """Keys and values are read to the end; a row of q before its own result is written."""
        q, k, v = (torch.randn(2, 4, 200, 16) for _ in range(3))
        wanted = stof.attention(q, k, v)
        own = q.clone()
        self.assertTrue(torch.equal(stof.attention(own, k, v, out=own), wanted))
        whole = torch.randn(2, 200, 16, 16)  # [B, S, 3 H, D] and room for the result
        parts = [part.transpose(1, 2) for part in whole.split(4, 2)]
        wanted = stof.attention(*parts[:3])
        self.assertTrue(torch.equal(stof.attention(*parts[:3], out=parts[3]), wanted))  # in between, but apart
        items, longer = torch.randn(4, 4, 200, 16), torch.randn(2, 4, 201, 16)
        plan = stof.Attention("all", batch=2, heads=4, queries=200, keys=200, head_dim=16, dtype="f32", device="cpu")
        for call, said in (
            (lambda: stof.attention(q, k, v, out=k), "out shares memory with k, which is read while it is written; accepted: memory apart from k and v"),
            (lambda: plan.run(q, k, v, out=v), "out shares memory with v, which is read while it is written; accepted: memory apart from k and v"),
            (lambda: stof.attention(items[:2], items[2:], v, out=items[1:3]), "out shares memory with k, which"),
            (lambda: stof.attention(items[:2], k, v, out=items[1:3]), "out shares memory with q and is not q itself; accepted: q, or memory apart from it"),
            (lambda: stof.attention(longer[:, :, 1:], k, v, out=longer[:, :, :-1]), "out shares memory with q and is not q itself; "),
            (lambda: stof.attention(*(one.numpy() for one in (q, k, v)), out=v.numpy()), "out shares memory with v, which"),
        ):
            with self.assertRaises(stof.InvalidArgument) as failed:
                call()
            self.assertTrue(str(failed.exception).startswith(said), failed.exception)

    def test_the_negative_bit(self):
        """Of views whose memory has the numbers without their sign."""
        for device in DEVICES:
            q, k, v = tensors(device, torch.float32)
            for name, one in (("a view", torch._neg_view(-q)), ("a conjugate", torch.complex(q, -q).conj().imag)):
                with self.subTest(f"{device} {name}"):
                    self.assertTrue(one.is_neg())
                    self.assertTrue(torch.equal(stof.attention(one, k, v, "causal"), stof.attention(q, k, v, "causal")))
            with self.assertRaisesRegex(stof.InvalidArgument, "^out has PyTorch's negative bit, so that what is written would be seen negated; "):
                stof.attention(q, k, v, out=torch._neg_view(torch.empty_like(q)))

    def test_rows_of_no_item_are_zero(self):
        """Where the library makes the result; memory is NaN before."""
        torch.use_deterministic_algorithms(True)  # with it torch.empty fills
        self.addCleanup(torch.use_deterministic_algorithms, False)
        for device in DEVICES:
            of = lambda *numbers: torch.tensor(numbers, dtype=torch.int32, device=device)
            q, k, v = tensors(device, torch.float32, queries=9, keys=9)
            self.assertTrue(torch.empty_like(q).isnan().all())
            plan = stof.Attention("causal", batch=2, heads=6, kv_heads=2, queries=9, keys=9, head_dim=64, dtype=q.dtype, device=str(q.device))
            plan.prepare(4, 4)
            for lengths in ([9, 4], of(9, 4)):
                out = plan.run(q, k, v, q_lengths=lengths, kv_lengths=lengths)
                self.assertEqual((out[1, :, 4:].abs().max().item(), out.isfinite().all().item()), (0, True))
            packed = [one.transpose(1, 2).flatten(0, 1) for one in (q, k, v)]
            for offsets in ([0, 9, 13], of(0, 9, 13)):
                out = plan.run(*packed, cu_q=offsets, cu_kv=offsets)
                self.assertEqual((out[13:].abs().max().item(), out.isfinite().all().item()), (0, True))

    def test_lengths_of_the_device(self):
        for device in DEVICES:
            q, k, v = tensors(device, torch.float16, queries=1, keys=200)
            plan = stof.Attention("all", batch=2, heads=6, kv_heads=2, queries=1, keys=200, head_dim=64, device=str(q.device))
            plan.prepare(1, 1)
            lengths = torch.tensor([200, 77], dtype=torch.int32, device=device)
            allowed = torch.arange(200)[None, None, None] < lengths.cpu()[:, None, None, None]
            self.expect(plan.run(q, k, v, kv_lengths=lengths), defined(q, k, v, allowed)[0], torch.float16)

    def test_packed_queries_over_pages(self):
        for device in DEVICES:
            q, k, v = tensors(device, torch.float16, queries=2, keys=64)
            plan = stof.Attention("causal", batch=2, heads=6, kv_heads=2, queries=2, keys=64, head_dim=64, device=str(q.device))
            plan.prepare(2, 1)
            of = lambda *numbers: torch.tensor(numbers, dtype=torch.int32, device=device)
            lengths, pool = of(64, 23), lambda one: one.unflatten(2, (4, 16)).transpose(1, 2).flatten(0, 1)
            out = plan.run(q.transpose(1, 2).flatten(0, 1), pool(k), pool(v), cu_q=of(0, 2, 4), kv_lengths=lengths,
                           page_table=of(*range(8)).view(2, 4))  # fmt: skip
            last = lengths.cpu()[:, None, None, None] - 2 + torch.arange(2)[:, None]
            self.expect(out.unflatten(0, (2, 2)).transpose(1, 2), defined(q, k, v, torch.arange(64) <= last)[0], torch.float16)

    def test_blocks_that_were_selected(self):
        for device in DEVICES:
            q, k, v = tensors(device, torch.float16, queries=200)
            scores = torch.randn(2, 2, 4, 4, device=device)  # of each key head, blocks of 64 queries and of 64 keys
            plan = stof.TableAttention("lists", table_batch=2, table_heads=2, width=2, limit="causal", batch=2, heads=6, kv_heads=2,
                                       queries=200, keys=200, head_dim=64, device=str(q.device))  # fmt: skip
            i, j = positions(200, 200)
            for turn in range(2):
                chosen = (scores if turn == 0 else -scores).topk(2, -1).indices.to(torch.int32)
                plan.update(chosen)
                of_blocks = torch.zeros(2, 2, 4, 4, dtype=torch.bool).scatter_(-1, chosen.long().cpu(), True)
                allowed = of_blocks.repeat_interleave(64, 2).repeat_interleave(64, 3)[:, :, :200, :200].repeat_interleave(3, 1) & (j <= i)
                self.expect(plan.run(q, k, v), defined(q, k, v, allowed)[0], torch.float16)

    def test_recorded_on_the_stream_of_torch(self):
        if "cuda" not in DEVICES:
            self.skipTest("no GPU")
        i, j = positions(130, 200)
        q, k, v = tensors("cuda", torch.float16)
        plan = stof.Attention("causal", batch=2, heads=6, kv_heads=2, queries=130, keys=200, head_dim=64, device=str(q.device))
        stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            out = plan.run(q, k, v)
            with torch.cuda.graph(graph, stream=stream):
                plan.run(q, k, v, out=out)
            q.copy_(torch.randn_like(q))
            graph.replay()
        stream.synchronize()
        self.expect(out, defined(q, k, v, j <= i)[0], torch.float16)

    def test_numpy(self):
        q, k, v = (one.numpy() for one in tensors("cpu", torch.float32))
        out, lse = stof.attention(q, k, v, "all", return_lse=True)
        self.assertIsInstance(out, numpy.ndarray)
        wanted, logarithms = defined(*map(torch.from_numpy, (q, k, v)), torch.ones(130, 200, dtype=torch.bool))
        self.expect(torch.from_numpy(out), wanted, torch.float32)
        self.assertLess(numpy.abs(lse - logarithms.numpy()).max(), 1e-4)
        self.assertEqual(stof.attention(q.astype(numpy.float16), k.astype(numpy.float16), v.astype(numpy.float16)).dtype, numpy.float16)

    def test_no_items(self):
        for device in DEVICES:
            q, k, v = tensors(device, torch.float32, batch=0)
            out, lse = stof.attention(q, k, v, "causal", return_lse=True)
            self.assertEqual((out.shape, lse.shape), (q.shape, q.shape[:3]))

    def test_the_page(self):
        """The first program about attention of docs/python.md, and its masks."""
        page = (Path(__file__).resolve().parents[2] / "docs/python.md").read_text(encoding="utf-8")
        first, masks, *_ = re.findall(r"```python\n(.*?)```", page[page.index("## Attention") :], re.DOTALL)
        names = {}
        exec(first, names)  # noqa: S102: a page of this project
        q, k, v = (names[name] for name in "qkv")
        i, j = positions(1024, 1024)
        scores = 30 * torch.tanh(q.double() @ k.double().transpose(-1, -2) / 8 / 30)
        wanted = scores.masked_fill(j > i, -math.inf)
        self.expect(names["out"], torch.softmax(wanted, -1) @ v.double(), torch.float32)
        self.assertLess((names["lse"] - torch.logsumexp(wanted, -1)).abs().max().item(), 1e-4)
        names |= {"allowed": torch.ones(4, 4, dtype=torch.bool), "table": torch.ones(2, 2, dtype=torch.bool),
                  "ids": torch.zeros(4, dtype=torch.int32)}  # fmt: skip
        made = [str(eval(line.split("  #")[0], names)) for line in masks.splitlines()]  # noqa: S307: as above
        self.assertEqual((made[0], made[-1]), ("!strided(4) & causal", "where(q >= k & q - k < 256)"))

    def test_what_is_differentiated_is_refused(self):
        q, k, v = tensors("cpu", torch.float32)
        said = "^q has a tangent of forward-mode differentiation, and nothing is differentiated here; "
        with torch.autograd.forward_ad.dual_level():
            with self.assertRaisesRegex(stof.InvalidArgument, said):
                stof.attention(torch.autograd.forward_ad.make_dual(q, q), k, v)
            stof.attention(q, k, v)
        with self.assertRaisesRegex(stof.InvalidArgument, said):
            torch.func.jvp(lambda one: stof.attention(one, k, v), (q,), (q,))

    def test_what_is_recorded_is_refused(self):
        """It would be left out of what is recorded, or fail somewhere."""
        q, k, v = tensors("cpu", torch.float32)
        plan = stof.Attention("all", batch=2, heads=6, kv_heads=2, queries=130, keys=200, head_dim=64, dtype=q.dtype, device=q.device)
        recorded = "which records what PyTorch computes, and nothing of stof; accepted: torch.compile without fullgraph"
        module = torch.nn.Module()
        module.forward = lambda one: stof.attention(one, k, v)
        for call in (lambda one: stof.attention(one, k, v), lambda one: plan.run(one, k, v)):
            for record, said in (
                (lambda: torch.jit.trace(call, (q,), check_trace=False), f"^q under torch.jit.trace, {recorded}"),
                (lambda: make_fx(call)(q), f"^q under make_fx or torch.export, {recorded}"),
                (lambda: torch.export.export(module, (q,), strict=False), f"^q under .* or torch.export, {recorded}"),
                (lambda: torch.vmap(call)(q[None]), "^q is a Tensor without memory of its own, as under torch.vmap, "),
                (lambda: call(FakeTensorMode().from_tensor(q)), "^q is a FakeTensor without memory of its own, "),
            ):
                with self.assertRaisesRegex(stof.Unsupported, said):
                    record()
        self.addCleanup(torch._dynamo.reset)
        compiled = torch.compile(lambda one: 2 * stof.attention(one + 0, k, v), backend="eager")
        self.assertTrue(torch.equal(compiled(q), 2 * stof.attention(q, k, v)))

    def test_what_is_compiled_ends_in_front_of_a_call(self):
        """Two graphs, whatever is called with, and no warnings about the package's own code."""
        q, k, v = tensors("cpu", torch.float32)
        sizes = {"batch": 2, "heads": 6, "kv_heads": 2, "keys": 200, "head_dim": 64, "dtype": q.dtype, "device": q.device}
        plan = stof.Attention("causal", queries=130, **sizes)
        table = stof.TableAttention("blocks", queries=130, block_q=256, block_kv=256, **sizes)
        in_tree = stof.Attention("causal", queries=130, tree_queries=130, **sizes)

        def by_table(one):
            table.update(torch.ones(1, 1, 1, 1, dtype=torch.bool))
            return table.run(one, k, v)

        self.addCleanup(torch._dynamo.reset)
        for graphs, call in (
            (2, lambda one: stof.attention(one, k, v, lambda b, h, q, k: q >= k)), (2, lambda one: stof.attention(one, k, v, "window(3)", return_lse=True)[0]),
            (2, lambda one: plan.run(one, k, v)), (3, by_table),
            (3, lambda one: in_tree.run(one, k, v, tree=stof.pack_tree(torch.ones(130, 130, dtype=torch.bool)))),
        ):  # fmt: skip
            made = []

            def backend(module, inputs, made=made):
                made.append(module)
                return module.forward

            torch._dynamo.reset()
            compiled = torch.compile(lambda one, call=call: 2 * call(one + 0), backend=backend)
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                for _ in range(10):
                    given = torch.randn_like(q)
                    self.assertTrue(torch.equal(compiled(given), 2 * call(given)))
            self.assertEqual((len(made), [str(one.message) for one in warned]), (graphs, []))

    def test_errors(self):
        q, k, v = tensors("cpu", torch.float32)
        docs = torch.zeros(200, dtype=torch.int32)
        plan = stof.Attention("all", batch=2, heads=6, kv_heads=2, queries=130, keys=200, head_dim=64, dtype=q.dtype, device=q.device)
        for call, said in (
            (lambda: stof.attention(q.clone().requires_grad_(), k, v), "q requires a gradient, and there is no backward pass; "),
            (lambda: stof.attention(q.to("meta"), k, v), "q is a tensor of device meta, torch.strided; accepted: strided ones of cpu or cuda"),
            (lambda: stof.attention(q, k.half(), v), "k is f16 on cpu; accepted: f32, as planned, on cpu, where q is"),
            (lambda: stof.attention(torch.nested.nested_tensor([q[0], q[1]]), k, v), "q is a tensor of device cpu, nested; accepted: strided ones of cpu"),
            (lambda: stof.attention(numpy.ma.masked_array(q.numpy(), mask=True), k.numpy(), v.numpy()),
             "q is a numpy.ma.MaskedArray, whose mask would not be heeded; accepted: numpy.ndarray, as its .filled() or .data"),
            (lambda: stof.attention(q.double(), k, v), "q is of dtype torch.float64; accepted: f32, f16, bf16"),
            (lambda: plan.run(q, k, v, kv_lengths=torch.tensor([1, 1])), "kv_lengths is of dtype torch.int64; accepted: i32, as .int() makes it"),
            (lambda: plan.run(q, k, v, lse=torch.empty(2, 6, 130, dtype=torch.float64)), "lse is of dtype torch.float64; accepted: f32"),
            (lambda: stof.Mask.where(lambda b, h, q, k: docs[q] == docs[k]), "a mask's function asks for element q of a tensor [200] of torch.int32; "),
            (lambda: stof.Mask.where(lambda b, h, q, k: q.to(torch.float32) > k), "a mask's function makes q torch.float32; accepted: torch.bool, integers"),
            (lambda: stof.Mask.where(lambda b, h, q, k: torch.sin(q) > 0), "a mask's function calls torch's sin; accepted: arithmetic with + - * // "),
        ):
            with self.assertRaises(stof.InvalidArgument) as failed:
                call()
            self.assertTrue(str(failed.exception).startswith(said), failed.exception)


if __name__ == "__main__":
    unittest.main()
