#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Outputs of contenders on a GPU (bench/peers): one that was not written, or is wrong in one row of many, has no time. What
needs torch is skipped where there is none."""

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
    import attention_row
    import decode
    import providers
    import timing

    if torch:
        import models
        import ragged


class Output:
    """A tensor, as far as poisoning needs one."""

    def __init__(self, value):
        self.value = value

    def fill_(self, value):
        self.value = value


class Poisoned(unittest.TestCase):
    def of(self, launch):
        with mock.patch.object(attention_row, "poison") as poison, mock.patch.object(attention_row, "torch"):
            out = attention_row.poisoned_output(providers.Contender(launch), (1,), "f16")
        poison.assert_called_once_with((1,), "f16")
        return out

    def test_a_launch_that_writes_nothing_leaves_nan(self):
        kept = Output(1.0)
        self.assertNotEqual(self.of(lambda i: kept).value, 1.0)

    def test_a_launch_that_writes_is_looked_at_afterwards(self):
        kept = Output(0.0)

        def launch(i):
            kept.value = 1.0
            return kept

        self.assertEqual(self.of(launch).value, 1.0)


class Judged(unittest.TestCase):
    def test_the_whole_and_each_row_have_bounds(self):
        self.assertEqual(timing.judged(1.9e-3, 1.9e-2, 2e-3), (1.9e-3, 1.9e-2))
        for frobenius, worst in ((2e-3, 1e-3), (1e-3, 2e-2), (float("nan"), 1e-3), (1e-3, float("nan"))):
            with self.assertRaisesRegex(timing.WrongOutput, "^relative error .*, worst row "):
                timing.judged(frobenius, worst, 2e-3)


@unittest.skipUnless(torch, "there is no torch")
class Checked(unittest.TestCase):
    """Decode, of whose items three are compared: [items, heads, queries, d]."""

    def setUp(self):
        torch.manual_seed(0)
        self.want = torch.randn(5, 64, 16, 64)
        self.expected = {item: self.want[item] for item in (0, 2, 4)}
        self.out = self.want.half()

    def test_a_right_output_has_both_errors(self):
        found = decode.check(self.out, self.expected, "f16")
        self.assertTrue(0 < found["error"] < found["worst_row"] < 1e-3, found)

    def test_one_row_is_enough(self):
        self.out[2, 7, 3] *= 1.03
        with self.assertRaisesRegex(timing.WrongOutput, "worst row 3"):
            decode.check(self.out, self.expected, "f16")

    def test_items_that_are_not_compared_are_written_too(self):
        self.out[1, 0, 0, 0] = float("nan")
        with self.assertRaisesRegex(timing.WrongOutput, "NaN"):
            decode.check(self.out, self.expected, "f16")

    def test_rows_of_attention_that_are_not_compared_are_written_too(self):
        rows = torch.arange(8)
        self.assertEqual(len(timing.check(self.out, self.want[:, :, rows], rows, torch.float16)), 2)
        self.out[1, 0, 9, 0] = float("nan")
        with self.assertRaisesRegex(timing.WrongOutput, "NaN"):
            timing.check(self.out, self.want[:, :, rows], rows, torch.float16)


@unittest.skipUnless(torch, "there is no torch")
class Models(unittest.TestCase):
    """[texts, tokens, hidden]; every text counts."""

    def setUp(self):
        self.check = models.check
        torch.manual_seed(0)
        self.want = torch.randn(4, 100, 64)
        self.got = self.want.half()

    def test_a_right_output_says_how_many_texts_are(self):
        found = self.check(self.got, self.want, "cuda")
        self.assertEqual(found["texts_checked"], 4)
        self.assertTrue(0 < found["error"] < found["worst_row"] < 1e-3, found)

    def test_the_last_text_counts(self):
        self.got[3] *= 1.006
        with self.assertRaisesRegex(timing.WrongOutput, "relative error 6"):
            self.check(self.got, self.want, "cuda")

    def test_one_row_of_it_counts(self):
        self.got[3, 50] *= 1.06
        with self.assertRaisesRegex(timing.WrongOutput, "worst row 6"):
            self.check(self.got, self.want, "cuda")

    def test_what_was_not_written_is_wrong(self):
        self.got[3, 99, 63] = float("nan")
        with self.assertRaisesRegex(timing.WrongOutput, "NaN"):
            self.check(self.got, self.want, "cuda")


@unittest.skipUnless(torch, "there is no torch")
class Ragged(unittest.TestCase):
    """Items one after the other, or each with room for the longest."""

    def batch(self, way, mask="causal & window(4)"):
        torch.manual_seed(0)
        batch = ragged.Batch.__new__(ragged.Batch)
        batch.case = ragged.Case("few", mask, 300, [7, 300, 1], heads=4, kv_heads=2, dim=16)
        batch.starts = [0, 7, 307, 308]
        batch.q, batch.k, batch.v = (torch.randn(900, heads, 16).half() for heads in (4, 2, 2))
        batch.out = torch.full((900, 4, 16), float("nan")).half()
        for q, k, v, out in zip(*(batch.items(t, way) for t in (batch.q, batch.k, batch.v, batch.out))):
            i = torch.arange(len(q))
            allowed = (i[None] <= i[:, None]) & (i[:, None] - i[None] <= 4) if mask != "all" else torch.ones(len(q), len(q)) > 0
            for head in range(4):
                scores = (q[:, head].float() @ k[:, head // 2].float().T / 4).masked_fill(~allowed, float("-inf"))
                out[:, head] = (torch.softmax(scores, 1) @ v[:, head // 2].float()).half()
        return batch

    def test_items_are_compared_wherever_they_lie(self):
        for way in ("host", "padded host"):
            for mask in ("causal & window(4)", "all"):
                batch = self.batch(way, mask)
                frobenius, row = batch.check(way, batch.expected(way))
                self.assertTrue(0 < frobenius <= row < 2e-3, (frobenius, row))

    def test_the_item_that_is_wrong_is_named(self):
        batch = self.batch("host")
        batch.items(batch.out, "host")[2][0, 3, 5] += 1
        with self.assertRaisesRegex(timing.WrongOutput, "^item 2 of 1 rows: relative error "):
            batch.check("host", batch.expected("host"))
        batch = self.batch("padded host")
        batch.items(batch.out, "padded host")[1][150] = float("nan")
        with self.assertRaisesRegex(timing.WrongOutput, "^item 1 of 300 rows: output holds NaN"):
            batch.check("padded host", batch.expected("padded host"))


if __name__ == "__main__":
    unittest.main()
