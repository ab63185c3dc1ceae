#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Relative biases as bench/peers/attention.py --bias times them: who is asked, what values are, and that every form of them, and the
reference, adds the same. What needs torch is skipped where there is none."""

import argparse
import sys
import types
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench/peers"))
try:
    import torch
except ImportError:
    torch = None
with mock.patch.dict(sys.modules, {} if torch else {name: mock.MagicMock() for name in ("torch", "torch.nn", "torch.nn.functional")}):
    import attention
    import attention_cases
    import attention_row
    import bias_providers
    import providers
    import timing
    from biases import Bias, added, buckets, slopes

KINDS = (("buckets", 128), ("alibi", 99), ("alibi", 20))


class Cases(unittest.TestCase):
    def test_both_kinds_come_in_both_types(self):
        cases = attention_cases.biased_cases()
        self.assertEqual(len(cases), 18)
        for dtype in ("f16", "bf16"):
            self.assertEqual([case.bias.said for case in cases if case.dtype == dtype],
                             ["buckets(128)"] * 6 + ["alibi(2047)", "alibi(2047)", "alibi(8191)"])  # fmt: skip

    def test_who_is_asked_is_known(self):
        known = {"stof_unbiased", *bias_providers.BIASED}
        asked = [attention_cases.peers_of(case, providers.PROVIDERS) for case in attention_cases.biased_cases()[:9]]
        self.assertEqual(set().union(*asked), known)
        self.assertFalse(any(name.endswith("_linear") for name in asked[0]))
        self.assertFalse(known & set(providers.PROVIDERS))
        self.assertEqual(attention_cases.peers_of(attention_cases.cases()[0], providers.PROVIDERS), list(providers.PROVIDERS))

    def test_results_say_that_they_are_of_biases(self):
        options = dict.fromkeys(("more", "head_dim", "drawn", "kinds", "chunks", "softcap"))
        self.assertEqual(attention.cases_said(argparse.Namespace(**options, bias=True)), {"bias": True})
        self.assertEqual(attention.cases_said(argparse.Namespace(**options, bias=False)), {})

    def test_stof_and_its_time_without_are_timed_at_length_whoever_is_best(self):
        times = {"stof": 30.0, "stof_unbiased": 1.0, "a": 10.0, "b": 12.0, "c": 14.0}
        row = attention_row.Row.__new__(attention_row.Row)
        row.facts, row.sets, row.peers = {}, mock.MagicMock(), {name: {} for name in times}
        row.contenders = {name: types.SimpleNamespace(launch=name) for name in times}
        timed = {"hot": str, "cold": str, "Waited": str, "screened": lambda replays: times, "clock_mhz": int, "torch": mock.MagicMock(),
                 "in_turns": lambda replays, rounds, steady=False: dict.fromkeys(replays, 7.0)}  # fmt: skip
        with mock.patch.multiple(attention_row, **{name: (lambda launch, *_: launch) if made is str else made for name, made in timed.items()}):
            peers = row.measure()["peers"]
        self.assertEqual({name for name, peer in peers.items() if "steady_us" in peer}, {"stof", "stof_unbiased", "a", "b"})
        self.assertEqual(peers["c"], {"median_us": 14.0, "replays": 3})


class Sets:
    """On the CPU; what providers ask of tensor sets."""

    def __init__(self, bias, heads=4, queries=60, keys=100, dtype="float32", kv_heads=2):
        torch.manual_seed(0)
        self.bias, self.keys, self.first_position, self.softcap, self.dtype = bias, keys, keys - queries, None, getattr(torch, dtype)
        self.shape, self.grouped = (2, heads, queries, 16), kv_heads != heads
        make = lambda heads, rows: torch.randn(2, heads, rows, 16).to(self.dtype)
        self.tensors = make(heads, queries), make(kv_heads, keys), make(kv_heads, keys)

    def __getitem__(self, i):
        return self.tensors

    def dense(self):
        positions = torch.arange(self.shape[2])[:, None] + self.first_position
        return torch.arange(self.keys)[None] <= positions


@unittest.skipUnless(torch, "there is no torch")
class Values(unittest.TestCase):
    def test_of_alibi(self):
        self.assertEqual(slopes(8).tolist(), [2.0**-h for h in range(1, 9)])
        self.assertEqual(Bias("alibi", 2).values(8)[1].tolist(), [-0.5, -0.25, 0, -0.25, -0.5])

    def test_of_buckets(self):
        """As transformers 5.17 has them, by T5Attention._relative_position_bucket."""
        distances = torch.tensor([-200, -128, -91, -64, -15, -8, -7, -1, 0, 1, 7, 8, 15, 64, 91, 128, 200])
        self.assertEqual(buckets(distances).tolist(), [15, 15, 15, 14, 9, 8, 7, 1, 0, 17, 23, 24, 25, 30, 31, 31, 31])
        values = Bias("buckets", 128).values(12)
        self.assertEqual(values.shape, (12, 257))
        for dtype in (torch.float16, torch.bfloat16):
            self.assertTrue(torch.equal(values, values.to(dtype).float()))
        self.assertTrue(torch.equal(values, Bias("buckets", 128).values(12)))

    def test_what_is_added(self):
        """By definition, of a query, a key and a head at a time."""
        for kind, reach in KINDS:
            values = Bias(kind, reach).values(4)
            self.assertTrue(values.is_contiguous())
            found = added(values, torch.tensor([3, 99, 40]), 100)
            for h in range(4):
                for i, p in enumerate((3, 99, 40)):
                    for j in range(100):
                        self.assertEqual(found[h, i, j], values[h, reach + max(-reach, min(reach, j - p))])
            self.assertTrue(torch.equal(added(values[2], torch.tensor([3, 99, 40]), 100), found[2]))


@unittest.skipUnless(torch, "there is no torch")
class Forms(unittest.TestCase):
    """Queries at the end of more keys, whose heads share keys."""

    def expected(self, sets, bias=None):
        q, k, v = sets[0]
        return timing.reference(q, k, v, sets.dense(), torch.arange(60), None, bias)

    def biases(self, sets):
        return added(sets.bias.values(4), torch.arange(60) + sets.first_position, sets.keys)

    def test_the_reference_adds_them_to_scaled_scores(self):
        for kind, reach in KINDS:
            sets = Sets(Bias(kind, reach))
            q, k, v = sets[0]
            found = torch.nn.functional.scaled_dot_product_attention(q, k, v, self.biases(sets).masked_fill(~sets.dense(), float("-inf")), enable_gqa=True)
            self.assertTrue(torch.allclose(found, self.expected(sets, self.biases(sets)), atol=1e-5))
            self.assertFalse(torch.allclose(found, self.expected(sets), atol=1e-2))

    def test_score_mods(self):
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        for kind, reach in KINDS:
            sets = Sets(Bias(kind, reach))
            blocks = create_block_mask(lambda b, h, i, j: j <= i + sets.first_position, None, None, 60, 100, device="cpu")
            forms = [bias_providers.looked_up] + [bias_providers.computed] * (reach == 99)  # beyond its reach a table stays as it is
            for form in forms if kind == "alibi" else forms[:1]:
                found = flex_attention(*sets[0], score_mod=form(sets, "cpu"), block_mask=blocks, enable_gqa=True)
                self.assertTrue(torch.allclose(found, self.expected(sets, self.biases(sets)), atol=1e-5), (kind, form))

    def test_tables_have_no_closed_form(self):
        with self.assertRaisesRegex(providers.NotTaken, "^a table has no closed form$"):
            bias_providers.computed(Sets(Bias("buckets", 128)), "cpu")

    def test_all_pairs(self):
        for dtype in ("float32", "float16"):
            for kind, reach in KINDS:
                sets = Sets(Bias(kind, reach), dtype=dtype)
                found = bias_providers.of_all_pairs(sets, sets.dense())
                wanted = self.biases(sets).to(sets.dtype).masked_fill(~sets.dense(), float("-inf"))
                self.assertTrue(torch.equal(found, wanted[None]))
                self.assertTrue(torch.equal(found, bias_providers.of_all_pairs(sets, sets.dense().expand(4, -1, -1))))

    def test_what_is_rounded_is_compared_with_what_is(self):
        sets = Sets(Bias("alibi", 99), heads=16, dtype="bfloat16")  # half of whose slopes are no powers of two
        contender = bias_providers.sdpa_dense("MATH", sets, None, sets.dense())
        row = attention_row.Row.__new__(attention_row.Row)
        row.sets, rows = sets, torch.arange(60)
        truth = row.truth_of(sets.dense(), rows)
        out = contender.output(contender.launch(0))
        errors = [timing.errors(out.float(), truth(adds)[0])[0] for adds in (contender.adds, providers.Contender(None).adds, lambda bias: None)]
        self.assertLess(errors[0], 5e-3)
        self.assertLess(errors[0], errors[1])
        self.assertGreater(errors[2], 0.1)
        self.assertIs(truth(contender.adds), truth(contender.adds))

    def test_stof_is_asked_with_and_without(self):
        sets, given = Sets(Bias("alibi", 99)), []

        def attention_of(library, mask, of, softcap, bias=None):
            given.append(bias)
            return types.SimpleNamespace(launch=None, description={"kernel": "k", "predicted_us": 1.0})

        with mock.patch.object(attention_row, "GpuAttention", attention_of):
            with_bias, without = (make(None, sets, None, None) for make in (attention_row.stof, attention_row.stof_unbiased))
        self.assertTrue(torch.equal(given[0], sets.bias.values(4)))
        self.assertIsNone(given[1])
        self.assertIsNotNone(sets.bias)
        self.assertEqual((with_bias.adds(3), without.adds(3)), (3, None))


if __name__ == "__main__":
    unittest.main()
