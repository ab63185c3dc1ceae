#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draft trees of python/stof on tensors of PyTorch, of the CPU and of a GPU where there is one, and on NumPy's arrays.

usage: tree_test.py LIBSTOF.SO    exit status 77 where there is no PyTorch
"""

import math
import sys
import unittest

import given  # noqa: F401  (finds the package)

try:
    import numpy
    import torch
except ImportError:
    sys.exit(77)

import stof

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
FAR = {torch.float32: 2e-5, torch.float16: 2e-3}
HEADS, KV_HEADS, DIM, PAGE = 4, 2, 64, 16
MASKS = {"causal": lambda p, j: j <= p, "causal & window(16)": lambda p, j: (j <= p) & (p - j <= 16)}


def random_parents(items, count, seed=0):
    """Of each query one before it, or none."""
    torch.manual_seed(seed)
    return (torch.rand(items, count) * (torch.arange(count) + 1)).long() - 1


def ancestors(parents):
    """bool [B, T, T], one parent after the other."""
    items, count = parents.shape
    seen = torch.zeros(items, count, count, dtype=torch.bool)
    for b in range(items):
        for i in range(count):
            j = i
            while j >= 0:
                seen[b, i, j] = True
                j = int(parents[b, j])
    return seen


def unpacked(words, count):
    """bool [..., T, T]"""
    return (words[..., None] >> torch.arange(32, device=words.device) & 1).flatten(-2)[..., :count].bool().cpu()


class Packing(unittest.TestCase):
    def test_bits_are_in_their_places(self):
        for count in (1, 2, 31, 32, 33, 64, 65):
            seen = torch.rand(3, count, count) < 0.5
            seen[:, :, -1] = True  # bit 31 of a word, for some
            for device in DEVICES:
                words = stof.pack_tree(seen.to(device))
                self.assertEqual((words.dtype, words.device.type, tuple(words.shape)), (torch.int32, device, (3, count, -(-count // 32))))
                self.assertTrue(torch.equal(unpacked(words, count), seen))
            of_array = stof.pack_tree(seen.numpy())
            self.assertEqual(of_array.dtype, numpy.int32)
            self.assertTrue(numpy.array_equal(of_array, words.cpu().numpy()))
            self.assertTrue(torch.equal(stof.pack_tree(seen[0]), words[0].cpu()))

    def test_arrays_in_any_order(self):
        seen = numpy.random.default_rng(0).random((3, 33, 33)) < 0.5
        for of in (seen.transpose(0, 2, 1), seen.transpose(2, 1, 0)[:3, :3], seen[0].T, numpy.asfortranarray(seen), seen[:, ::-1]):
            count = min(of.shape[-2:])
            of = of[..., :count, :count]
            words = torch.from_numpy(stof.pack_tree(of))
            self.assertTrue(torch.equal(unpacked(words, count), torch.from_numpy(of.copy())))

    def test_trees_of_parents(self):
        for count in (1, 2, 3, 16, 32, 33, 100):
            parents = random_parents(3, count)
            parents[1] = torch.arange(count) - 1  # a chain, the deepest there is
            words = stof.pack_tree(ancestors(parents))
            for device in DEVICES:
                for dtype in (torch.int32, torch.int64):
                    self.assertTrue(torch.equal(stof.tree_of_parents(parents.to(device, dtype)).cpu(), words))
                self.assertTrue(torch.equal(stof.tree_of_parents(parents[1].to(device)).cpu(), words[1]))
            self.assertTrue(numpy.array_equal(stof.tree_of_parents(parents.numpy()), words.numpy()))
            self.assertTrue(numpy.array_equal(stof.tree_of_parents(parents[0].int().numpy()), words[0].numpy()))

    @unittest.skipUnless("cuda" in DEVICES, "no GPU")
    def test_parents_of_a_gpu_that_are_not_earlier_are_none(self):
        words = stof.tree_of_parents(torch.tensor([-1, 0, 2, 7, -5, 1], device="cuda"))
        self.assertTrue(torch.equal(words, stof.tree_of_parents(torch.tensor([-1, 0, -1, -1, -1, 1], device="cuda"))))

    def test_errors(self):
        seen = torch.ones(2, 3, 3, dtype=torch.bool)
        for call, said in (
            (lambda: stof.pack_tree(seen.float()), "tree [2, 3, 3] of f32; accepted: bool [..., T, T] with T of at least 1"),
            (lambda: stof.pack_tree(seen.byte()), "tree [2, 3, 3] of uint8; accepted: bool [..., T, T] with T of at least 1"),
            (lambda: stof.pack_tree(seen[:, :2]), "tree [2, 2, 3] of bool; accepted: bool [..., T, T] with T of at least 1"),
            (lambda: stof.pack_tree([[True]]), "tree is of type list; accepted: torch.Tensor, numpy.ndarray"),
            (lambda: stof.tree_of_parents(torch.zeros(2)), "parents [2] of float32; accepted: int32 or int64 [T] or [B, T]"),
            (lambda: stof.tree_of_parents(numpy.zeros((1, 1, 2), int)), "parents [1, 1, 2] of int64; accepted: int32 or int64 [T] or [B, T]"),
            (lambda: stof.tree_of_parents([-1, 0]), "parents is of type list; accepted: torch.Tensor, numpy.ndarray"),
            (lambda: stof.tree_of_parents(torch.tensor([[-1, 0, 1], [-1, 0, 2]])), "parents[1, 2] is 2; accepted: -1 for a root, or a query before 2"),
            (lambda: stof.tree_of_parents(numpy.array([-1, -2])), "parents[1] is -2; accepted: -1 for a root, or a query before 1"),
        ):
            with self.assertRaises(stof.InvalidArgument) as failed:
                call()
            self.assertEqual(str(failed.exception), said)


class Items:
    """Ragged ones, packed over pages, and what they come to by definition."""

    def __init__(self, device, lengths, most_queries, most_keys):
        torch.manual_seed(1)
        self.device, self.lengths = device, lengths
        self.dtype = torch.float32 if device == "cpu" else torch.float16
        pages = most_keys // PAGE
        make = lambda *shape: torch.randn(shape).to(device, self.dtype)
        self.q = make(sum(queries for queries, _ in lengths), HEADS, DIM)
        self.k, self.v = (make(len(lengths) * pages, KV_HEADS, PAGE, DIM) for _ in range(2))
        self.table = torch.randperm(len(lengths) * pages).int().view(len(lengths), pages).to(device)
        self.starts = [sum(queries for queries, _ in lengths[:b]) for b in range(len(lengths) + 1)]
        self.sizes = {"batch": len(lengths), "heads": HEADS, "kv_heads": KV_HEADS, "queries": most_queries, "keys": most_keys,
                      "head_dim": DIM, "dtype": self.dtype, "device": str(self.q.device)}  # fmt: skip

    def lists(self, on_device):
        numbers = {"cu_q": self.starts, "kv_lengths": [keys for _, keys in self.lengths]}
        return {name: torch.tensor(values, dtype=torch.int32, device=self.device if on_device else "cpu") for name, values in numbers.items()}

    def run(self, plan, tree, on_device=False, **given):
        return plan.run(self.q, self.k, self.v, page_table=self.table, tree=tree, **self.lists(on_device), **given)

    def defined(self, allowed, seen):
        """seen: bool [B or 1, T, T]"""
        out = torch.zeros(self.q.shape, dtype=torch.float64)
        for b, (queries, keys) in enumerate(self.lengths):
            rows = slice(self.starts[b], self.starts[b + 1])
            of_item = lambda pool: pool.double().cpu()[self.table[b].cpu()].transpose(0, 1).flatten(1, 2)[:, :keys].repeat_interleave(HEADS // KV_HEADS, 0)
            pairs = allowed(torch.arange(queries)[:, None] + keys - queries, torch.arange(keys)[None])
            if queries <= seen.shape[1]:
                pairs[:, keys - queries :] &= seen[b if len(seen) > 1 else 0, :queries, :queries]
            scores = self.q.double().cpu()[rows].transpose(0, 1) @ of_item(self.k).transpose(-1, -2) / math.sqrt(DIM)
            weights = torch.nan_to_num(torch.softmax(scores.masked_fill(~pairs, -math.inf), -1))
            out[rows] = (weights @ of_item(self.v)).transpose(0, 1)
        return out


class Trees(unittest.TestCase):
    def expect(self, out, wanted, dtype):
        error = (out.double().cpu() - wanted).norm() / wanted.norm()
        self.assertLess(error.item(), FAR[dtype])

    def test_every_form(self):
        """bool and words, for each item and for all, with lists of the host and of the device."""
        lengths = [(12, 100), (5, 77), (20, 128), (1, 33), (40, 90), (12, 12)]
        for count in (12, 40):
            for device in DEVICES:
                items, parents = Items(device, lengths, 40, 128), random_parents(6, count)
                seen, one = ancestors(parents), ancestors(parents[:1])
                words = stof.tree_of_parents(parents.to(device))
                for mask, allowed in MASKS.items():
                    plan = stof.Attention(mask, tree_queries=40, **items.sizes)
                    plan.prepare(40, 1)
                    if count == 12:  # items of few queries have a kernel of their own beside the longer ones
                        plan.prepare(12, 1)
                    of_items, of_one = items.defined(allowed, seen), items.defined(allowed, one)
                    for on_device in (False, True):
                        with self.subTest(f"{device} {mask} {count} {on_device}"):
                            for tree, wanted in ((seen.to(device), of_items), (words, of_items), (one.to(device), of_one),
                                                 (one[0].to(device), of_one), (words[0], of_one), (words[:1], of_one)):  # fmt: skip
                                self.expect(items.run(plan, tree, on_device), wanted, items.dtype)

    def test_numpy(self):
        make = lambda *shape: numpy.random.default_rng(3).standard_normal(shape).astype(numpy.float32)
        q, k = make(2, 2, 6, 16), make(2, 2, 50, 16)
        seen = numpy.stack([numpy.eye(6, dtype=bool), numpy.tril(numpy.ones((6, 6), bool))])
        plan = stof.Attention("causal", batch=2, heads=2, queries=6, keys=50, head_dim=16, dtype="f32", device="cpu", tree_queries=6)
        pairs = numpy.concatenate([numpy.ones((2, 1, 6, 44), bool), seen[:, None]], -1)
        weights = numpy.where(pairs, numpy.exp(q.astype(float) @ k.astype(float).swapaxes(-1, -2) / 4), 0)
        wanted = weights / weights.sum(-1, keepdims=True) @ k
        for tree in (seen, stof.pack_tree(seen)):
            self.assertLess(numpy.abs(plan.run(q, k, k, tree=tree) - wanted).max(), 1e-5)

    @unittest.skipUnless("cuda" in DEVICES, "no GPU")
    def test_a_graph_follows_them(self):
        """Words that are written between replays, and bools and parents from which they are made in the graph."""
        lengths = [(12, 100), (5, 77), (20, 128)]
        items = Items("cuda", lengths, 20, 128)
        plan = stof.Attention("causal", tree_queries=12, **items.sizes)
        plan.prepare(20, 1), plan.prepare(12, 1)
        parents = random_parents(3, 12).cuda()
        forms = {"words": stof.tree_of_parents(parents), "bool": ancestors(parents.cpu()).cuda(), "parents": parents}
        tree_of = {"words": lambda of: of, "bool": lambda of: of, "parents": stof.tree_of_parents}
        made = {"words": lambda parents: stof.tree_of_parents(parents), "bool": lambda parents: ancestors(parents.cpu()).cuda(),
                "parents": lambda parents: parents}  # fmt: skip
        stream, lists = torch.cuda.Stream(), items.lists(True)
        for form, held in forms.items():
            graph, out = torch.cuda.CUDAGraph(), torch.empty_like(items.q)
            run = lambda: plan.run(items.q, items.k, items.v, page_table=items.table, tree=tree_of[form](held), out=out, **lists)
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                run()
                with torch.cuda.graph(graph, stream=stream):
                    run()
                for seed in range(2, 5):
                    parents = random_parents(3, 12, seed).cuda()
                    held.copy_(made[form](parents))
                    out.zero_()
                    graph.replay()
                    stream.synchronize()
                    with self.subTest(form=form, seed=seed):
                        self.expect(out, items.defined(MASKS["causal"], ancestors(parents.cpu())), items.dtype)

    def test_errors(self):
        q, k = torch.randn(2, 2, 6, 16), torch.randn(2, 2, 50, 16)
        sizes = {"batch": 2, "heads": 2, "queries": 6, "keys": 50, "head_dim": 16, "dtype": "f32", "device": "cpu"}
        plan, without = stof.Attention("causal", tree_queries=5, **sizes), stof.Attention("causal", **sizes)
        seen, words = (lambda *shape: torch.ones(shape, dtype=torch.bool)), (lambda *shape: torch.ones(shape, dtype=torch.int32))
        accepted = "; accepted: bool [T, T] or i32 [T, ceil(T / 32)] with T of 1..5, or 2 or 1 of them, on cpu"
        for tree, said in (
            (seen(6, 6), "tree [6, 6] of bool on cpu" + accepted),
            (seen(5, 4), "tree [5, 4] of bool on cpu" + accepted),
            (seen(3, 5, 5), "tree [3, 5, 5] of bool on cpu" + accepted),
            (seen(5), "tree [5] of bool on cpu" + accepted),
            (seen(), "tree [] of bool on cpu" + accepted),
            (words(2, 5, 2), "tree [2, 5, 2] of i32 on cpu" + accepted),
            (words(0, 1), "tree [0, 1] of i32 on cpu" + accepted),
            (seen(5, 5).float(), "tree [5, 5] of f32 on cpu" + accepted),
            (seen(5, 5).byte(), "tree [5, 5] of uint8 on cpu" + accepted),
            (seen(5, 5).long(), "tree is of dtype torch.int64; accepted: bool, i32"),
            ([[True]], "tree is of type list; accepted: torch.Tensor, numpy.ndarray"),
        ):
            with self.assertRaises(stof.InvalidArgument) as failed:
                plan.run(q, k, k, tree=tree)
            self.assertEqual(str(failed.exception), said)
        with self.assertRaises(stof.InvalidArgument) as failed:
            without.run(q, k, k, tree=seen(5, 5))
        self.assertEqual(str(failed.exception), "tree with a plan of tree_queries = 0; accepted where Attention(..., tree_queries=T) says that trees will come")
        for count in (-1, 7):
            with self.assertRaisesRegex(stof.InvalidArgument, f"^attention: tree_queries = {count}; accepted: 0..6$"):
                stof.Attention("causal", tree_queries=count, **sizes)
        wide = stof.Attention("causal", tree_queries=40, **(sizes | {"queries": 40}))
        with self.assertRaisesRegex(stof.InvalidArgument, r"^tree has strides \[1, 40\]; accepted: any whose last is 1$"):
            wide.run(q, k, k, tree=words(2, 40).T)


if __name__ == "__main__":
    unittest.main()
