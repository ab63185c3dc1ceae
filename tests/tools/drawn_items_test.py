#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Masks that differ from item to item, as bench/peers/attention.py --kinds items draws them: each allows in every form, as peers and
STOF are given it, the same.

usage: drawn_items_test.py [STOF [LIBSTOF.SO]]  (the program says what a text allows; what needs one of them, or torch, is skipped
without)
"""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "bench/peers"), str(ROOT / "tests/cli")]
try:
    import torch
except ImportError:
    torch = None
with mock.patch.dict(sys.modules, {} if torch else {name: mock.MagicMock() for name in ("torch", "torch.nn", "torch.nn.functional")}):
    import attention_row
    import drawn_cases
    import item_masks
    import providers
    import stof_library
    import timing
import npy  # noqa: E402

STOF, LIBRARY = ([sys.argv.pop(1) for _ in range(2) if len(sys.argv) > 1 and not sys.argv[1].startswith("-")] + [None] * 2)[:2]
SIZES = ((100, 2), (130, 5), (260, 3))  # keys and items
DOCUMENTS = {"packed items", "packed items causal", "packed items window", "right padding", "left padding"}


def drawn(count=24, seed=1, chunks=False):
    return drawn_cases.drawn_cases(seed, count, chunks, "items")


def said(case):
    return case.shape, case.dtype, case.family, case.width, case.kv_heads, case.keys


class Drawn(unittest.TestCase):
    def test_a_seed_draws_the_same_again(self):
        for chunks in (False, True):
            first = [said(case) for case in drawn(chunks=chunks)]
            self.assertEqual(first, [said(case) for case in drawn(chunks=chunks)])
            self.assertEqual(first[:10], [said(case) for case in drawn(10, chunks=chunks)])
            self.assertNotEqual(first, [said(case) for case in drawn(seed=2, chunks=chunks)])

    def test_every_family_comes_in_turn_on_batches_that_there_is_room_for(self):
        cases, count = drawn(), len(item_masks.FAMILIES)
        for begin in range(0, len(cases), count):
            self.assertEqual(sorted(case.family for case in cases[begin : begin + count]), sorted(item_masks.FAMILIES))
        for case in [*cases, *drawn(chunks=True)]:
            batch, _, queries, _ = case.shape
            self.assertTrue(2 <= batch <= 32, case.shape)
            self.assertLessEqual(batch * queries * (case.keys or queries), item_masks.MOST_PAIRS)


@unittest.skipUnless(torch, "there is no torch")
class Masks(unittest.TestCase):
    """Of each family several, small ones, on the CPU."""

    @classmethod
    def setUpClass(cls):
        cls.enterClassContext(mock.patch.object(item_masks, "DEVICE", "cpu"))
        draw = drawn_cases.random.Random(3)
        cls.cases = [(family, length, items, make()) for _ in range(3) for length, items in SIZES
                     for family, make in item_masks.masks_for(draw, length, items).items()]  # fmt: skip

    def dense(self, length, case, queries=None):
        return case.dense(length, "cpu", queries=queries)

    def by_program(self, length, items, case, queries):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([STOF, "mask", case.text, "--seq", f"{queries}x{length}", "--batch", str(items), "--out", "mask.npy"],
                           cwd=folder, check=True, capture_output=True)  # fmt: skip
            shape, _, values = npy.read(Path(folder) / "mask.npy")
        return torch.tensor(values).view(shape)

    def test_the_same_mask_is_made_again(self):
        masks_of = item_masks.masks_for(drawn_cases.random.Random(3), *SIZES[0])
        for (family, length, _, case), make in zip(self.cases, masks_of.values()):
            again = make()
            self.assertEqual((case.text, case.said), (again.text, again.said))
            self.assertTrue(torch.equal(self.dense(length, case), self.dense(length, again)), family)

    def test_items_differ(self):
        for family, length, items, case in self.cases:
            dense = self.dense(length, case)
            self.assertEqual(dense.shape, (items, 1, length, length), family)
            self.assertGreater(len(torch.unique(dense, dim=0)), 1, case.text)

    @unittest.skipUnless(STOF, "the program is not named")
    def test_stof_reads_them_as_the_check_does(self):
        for family, length, items, case in self.cases:
            for queries in (length, length // 3):
                self.assertTrue(torch.equal(self.by_program(length, items, case, queries), self.dense(length, case, queries)),
                                (family, length, case.text))  # fmt: skip

    @unittest.skipUnless(LIBRARY, "the library is not named")
    def test_the_library_and_the_reference_agree_item_by_item(self):
        library = stof_library.load(LIBRARY)
        for family, length, items, case in self.cases[: len(item_masks.FAMILIES)]:
            q, k, v = (torch.randn(items, heads, length, 16) for heads in (4, 2, 2))
            attend = stof_library.Attention(library, case.text, q, k, v)
            attend.run()
            want = timing.reference(q, k, v, self.dense(length, case), torch.arange(length))
            self.assertTrue(torch.allclose(attend.out, want, atol=1e-5), (family, case.text))

    def test_flex_attention_traces_them(self):
        from torch.nn.attention.flex_attention import create_mask
        for family, length, items, case in self.cases:
            found = create_mask(lambda b, h, q, k, case=case: case.by_item(b, q, k), items, None, length, length, device="cpu")
            self.assertTrue(torch.equal(found, self.dense(length, case)), (family, case.said))

    def test_cute_expressions_say_the_same(self):
        for family, length, items, case in self.cases:
            source = re.sub(r"\b(batch|[qk])\[0\]", r"\1", case.cute_source)
            q, k = torch.arange(length)[:, None], torch.arange(length)[None, :]
            for item in range(items):
                found = eval(source, {"batch": item, "q": q, "k": k, "aux": case.tensors, "load": lambda value: value})
                self.assertTrue(torch.equal(found.expand(length, length), self.dense(length, case)[item, 0]), (family, source))
            self.assertTrue(all(table.dtype == torch.int32 for table in case.tensors), family)

    def by_lists(self, length, items, case):
        """What a launch by lengths allows: of each document its rows, by how many keys, aligned at their ends."""
        lists = providers.varlen_lists(case.item_documents, length, "cpu")
        starts = lists["cu_seqlens_q"]
        self.assertTrue(torch.equal(starts, lists["cu_seqlens_k"]))
        rows, keys = (lists.get(f"seqused_{name}", starts.diff()) for name in "qk")
        self.assertEqual((int(rows.max()), int(keys.max())), (lists["max_seqlen_q"], lists["max_seqlen_k"]))
        found = torch.zeros(items, 1, length, length, dtype=torch.bool)
        left, right = (length if most is None else most for most in case.document_window)
        for start, n, m in zip(starts.tolist(), rows.tolist(), keys.tolist()):
            item, begin = divmod(start, length)
            distance = torch.arange(n)[:, None] + (m - n) - torch.arange(m)[None, :]
            near = torch.ones(n, m, dtype=torch.bool) if case.document_window == (None, None) else (distance <= left) & (-distance <= right)
            found[item, 0, begin : begin + n, begin : begin + m] = near
        return found

    def test_launches_by_lengths_allow_the_same(self):
        seen = set()
        for family, length, items, case in self.cases:
            if case.item_documents:
                self.assertTrue(torch.equal(self.by_lists(length, items, case), self.dense(length, case)), case.text)
                seen.add(family)
        self.assertEqual(seen, DOCUMENTS)

    def test_documents_of_every_item_alike_need_no_counts(self):
        lists = providers.varlen_lists([[(0, 3, 3), (3, 10, 7)]] * 2, 10, "cpu")
        self.assertEqual(lists["cu_seqlens_q"].tolist(), [0, 3, 10, 13, 20])
        self.assertEqual(set(lists), {"cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k"})

    def test_intervals_lie_item_behind_item(self):
        for family, length, items, case in self.cases:
            table = providers.intervals_of_items(self.dense(length, case), items)[0].view(-1, items, length)
            keys = torch.arange(length)
            found = torch.zeros(items, length, length, dtype=torch.bool)
            for begins, ends in zip(table[1::2], table[2::2]):
                found |= (keys >= begins[..., None]) & (keys < ends[..., None])
            self.assertFalse(table[0].any())
            self.assertTrue(torch.equal(found[:, None], self.dense(length, case)), (family, case.text))

    def test_lists_of_blocks_are_those_of_each_item(self):
        for family, length, items, case in self.cases:
            dense = self.dense(length, case)
            whole = providers.block_lists(dense, 64, 32)
            each = [providers.block_lists(item[0], 64, 32) for item in dense]
            for found, parts in zip(whole, zip(*each), strict=True):
                self.assertTrue(torch.equal(found, torch.cat(parts)), family)

    def test_facts_are_those_of_items(self):
        case = item_masks.right_padding([10, 128], 128, "cpu")
        dense = self.dense(128, case)
        self.assertEqual(attention_row.keys_used(dense), 69)
        self.assertEqual(attention_row.keys_used(dense[0, 0]), 10)
        self.assertEqual(attention_row.keys_used(dense[:, 0]), 128)  # heads, which share keys
        self.assertEqual(attention_row.touched_share(dense), 0.75)


if __name__ == "__main__":
    unittest.main()
