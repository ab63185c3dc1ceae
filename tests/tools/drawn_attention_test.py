#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Problems that bench/peers/attention.py draws: a seed's are the same again, the usual ones those of earlier results; masks of other
kinds allow in every form, as peers and STOF are given them, the same.

usage: drawn_attention_test.py [STOF [LIBSTOF.SO]]  (the program says what a text allows; what needs one of them, or torch, is
skipped without)
"""

import argparse
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "bench"), str(ROOT / "bench/peers"), str(ROOT / "tests/cli")]
try:
    import torch
except ImportError:
    torch = None
with mock.patch.dict(sys.modules, {} if torch else {name: mock.MagicMock() for name in ("torch", "torch.nn", "torch.nn.functional")}):
    import attention
    import drawn_cases
    import masks
    import more_families
    import more_masks
    import stof_library
import npy  # noqa: E402
import report_gpu  # noqa: E402

STOF, LIBRARY = ([sys.argv.pop(1) for _ in range(2) if len(sys.argv) > 1 and not sys.argv[1].startswith("-")] + [None] * 2)[:2]
LENGTHS, HEADS = (100, 200, 260), 5
USUAL = [((2, 20, 16384, 64), "f16", "longformer", 1, None, None), ((8, 8, 6000, 64), "f16", "documents", 2, None, None),
         ((4, 12, 4096, 128), "bf16", "sliding", 3, None, None), ((8, 4, 2048, 128), "bf16", "causal", 4, None, None)]  # of seed 1
LAST = ((16, 20, 2048, 64), "f16", "documents", 60, 5, None)
CHUNKS = [((2, 20, 64, 80), "f16", "sliding", 1, None, 1996), ((4, 4, 333, 128), "f16", "causal", 2, 1, 15443)]
USUAL_TEXTS = {0: "longformer(128,1)", 2: "causal & window(500)", 3: "causal", 4: "prefix(128)"}


def drawn(count=60, seed=1, chunks=False, kinds="more"):
    return drawn_cases.drawn_cases(seed, count, chunks, kinds)


def said(case):
    return case.shape, case.dtype, case.family, case.width, case.kv_heads, case.keys


class Drawn(unittest.TestCase):
    def test_usual_draws_are_those_of_earlier_results(self):
        found = drawn(kinds=None)
        self.assertEqual([said(case) for case in found[:4]], USUAL)
        self.assertEqual({place: found[place].make().text for place in USUAL_TEXTS}, USUAL_TEXTS)
        self.assertEqual(said(found[59]), LAST)
        self.assertEqual([said(case) for case in drawn(2, chunks=True, kinds=None)], CHUNKS)

    def test_a_seed_draws_the_same_again(self):
        for chunks in (False, True):
            first = [said(case) for case in drawn(chunks=chunks)]
            self.assertEqual(first, [said(case) for case in drawn(chunks=chunks)])
            self.assertEqual(first[:10], [said(case) for case in drawn(10, chunks=chunks)])
            self.assertNotEqual(first, [said(case) for case in drawn(seed=2, chunks=chunks)])
            self.assertFalse(any(case.family in more_families.OF_WHOLE_TEXTS for case in drawn(chunks=True)))

    def test_every_family_comes_in_turn(self):
        families = [case.family for case in drawn(24)]
        for part in (families[:12], families[12:]):
            self.assertEqual(sorted(part), sorted(more_families.FAMILIES))

    def test_results_say_the_kinds(self):
        options = dict.fromkeys(("more", "head_dim", "chunks", "softcap", "bias"))
        of = lambda **named: attention.cases_said(argparse.Namespace(**options, **named))
        self.assertEqual(of(drawn=1, kinds=None), {"drawn": 1})
        self.assertEqual(of(drawn=1, kinds="more"), {"drawn": 1, "kinds": "more"})

    def test_kinds_are_of_drawn_masks_alone(self):
        with mock.patch.object(sys, "argv", ["attention.py", "--out", "r.json", "--kinds", "more"]), \
                mock.patch.object(argparse.ArgumentParser, "error", side_effect=ValueError) as error, self.assertRaises(ValueError):  # fmt: skip
            attention.options()
        error.assert_called_once_with("--kinds is of masks that are drawn; say --drawn SEED")

    def test_tables_show_names_of_drawn_masks_whole(self):
        row = {"mask": "segments(12 documents with prefixes), seed 77", "family": "f", "shape": [1, 2, 3, 4], "kv_heads": 2, "dtype": "f16"}
        self.assertEqual(report_gpu.named(row), "(1,2,3,4) f16 `segments(12 documents with prefixes), seed 77`")


@unittest.skipUnless(torch, "there is no torch")
class Masks(unittest.TestCase):
    """Of each family several, small ones, on the CPU."""

    @classmethod
    def setUpClass(cls):
        cls.enterClassContext(mock.patch.object(more_families, "DEVICE", "cpu"))
        draw = drawn_cases.random.Random(3)
        cls.cases = [(family, length, make()) for _ in range(5) for length in LENGTHS
                     for family, make in more_families.more_masks_for(draw, length, HEADS).items()]  # fmt: skip

    def dense(self, length, case, queries=None):
        return case.dense(length, "cpu", HEADS, queries)

    def by_program(self, length, case, queries):
        """[queries, keys], or of each head."""
        with tempfile.TemporaryDirectory() as folder:
            for name, values in case.files.items():
                stof_library.write_npy(Path(folder) / name, values)
            subprocess.run([STOF, "mask", case.text, "--seq", f"{queries}x{length}", "--heads", str(HEADS), "--out", "mask.npy"],
                           cwd=folder, check=True, capture_output=True)  # fmt: skip
            shape, _, values = npy.read(Path(folder) / "mask.npy")
        return torch.tensor(values).view(shape)[0]

    def test_the_same_mask_is_made_again(self):
        masks_of = more_families.more_masks_for(drawn_cases.random.Random(3), LENGTHS[0], HEADS)
        for (family, length, case), make in zip(self.cases, masks_of.values()):
            again = make()
            self.assertEqual((case.text, case.said), (again.text, again.said))
            self.assertTrue(torch.equal(self.dense(length, case), self.dense(length, again)), family)

    @unittest.skipUnless(STOF, "the program is not named")
    def test_stof_reads_them_as_the_check_does(self):
        seen = set()
        for family, length, case in self.cases:
            for queries in (length,) if family in more_families.OF_WHOLE_TEXTS else (length, length // 3):
                if case.bits is None:
                    want = self.dense(length, case, queries).expand(HEADS, -1, -1)
                    self.assertTrue(torch.equal(self.by_program(length, case, queries), want), (family, length, case.text))
                    seen.add(family)
        self.assertEqual(seen, set(more_families.FAMILIES) - {"checkers"})

    def test_flex_attention_traces_them(self):
        from torch.nn.attention.flex_attention import create_mask
        for family, length, case in self.cases:
            allows = case.by_head or (lambda h, q, k, case=case: case.allows(q, k))
            found = create_mask(lambda b, h, q, k: allows(h, q, k), 1, HEADS, length, length, device="cpu")[0]
            self.assertTrue(torch.equal(found, self.dense(length, case).expand(HEADS, -1, -1)), (family, case.said))

    def test_cute_expressions_say_the_same(self):
        for family, length, case in self.cases:
            self.assertEqual(case.cute_source is None, case.by_head is not None, case.said)
            if case.cute_source:
                source = re.sub(r"\b([qk])\[0\]", r"\1", case.cute_source)
                q, k = torch.arange(length)[:, None], torch.arange(length)[None, :]
                found = eval(source, {"q": q, "k": k, "aux": case.tensors, "load": lambda value: value})
                self.assertTrue(torch.equal(found.expand(length, length), self.dense(length, case)), (family, source))
                self.assertTrue(all(table.dtype == torch.int32 for table in case.tensors), family)

    def near(self, length, window):
        """Who is at most so far back and ahead; None: any."""
        distance = torch.arange(length)[:, None] - torch.arange(length)[None, :]
        left, right = (length if most is None else most for most in window)
        return (distance <= left) & (-distance <= right)

    def test_documents_are_those_of_launches_by_lengths(self):
        seen = set()
        for family, length, case in self.cases:
            if case.document_starts:
                found = torch.zeros(length, length, dtype=torch.bool)
                for begin, end in zip(case.document_starts, [*case.document_starts[1:], length], strict=True):
                    found[begin:end, begin:end] = True
                self.assertTrue(torch.equal(found & self.near(length, case.document_window), self.dense(length, case)), case.text)
                seen.add(family)
        self.assertEqual(seen, {"packed", "packed window", "documents & sliding", "where"})

    def test_native_windows_are_the_mask(self):
        windows = [(length, case) for _, length, case in self.cases if case.window]
        self.assertTrue(windows)
        for length, case in windows:
            self.assertTrue(torch.equal(self.near(length, case.window), self.dense(length, case)), case.text)

    def test_tables_of_blocks_are_the_mask(self):
        seen = set()
        for _, length, case in self.cases:
            if case.block:
                whole = case.table.repeat_interleave(case.block, -1).repeat_interleave(case.block, -2)[..., :length, :length]
                self.assertTrue(torch.equal(whole, self.dense(length, case)), case.said)
                seen.add(whole.dim())
        self.assertEqual(seen, {2, 3})

    def test_drafts_see_who_they_descend_from(self):
        parents = [-1, 0, 0, 2, -1, 3, 1]
        case = more_masks.tree(10, parents, "cpu")
        self.assertTrue(case.text.startswith("tree([-1,0,1,2,3,3,5,2,6,4])"), case.text)
        ancestors = lambda draft: {draft} | (ancestors(parents[draft]) if parents[draft] >= 0 else set())
        for draft in range(len(parents)):
            seen = case.dense(10, "cpu")[3 + draft]
            self.assertEqual(set(seen.nonzero().flatten().tolist()), {0, 1, 2} | {3 + one for one in ancestors(draft)})

    def test_usual_masks_of_heads_and_grids_keep_their_texts(self):
        self.assertEqual(masks.by_head(32, 4).text, "heads(0-5: window(32), 6-8: causal, *: longformer(32,4))")
        self.assertEqual(masks.documents_from([0, 5], 9, "cpu").text, "documents([0,5]) & causal")

    @unittest.skipUnless(LIBRARY, "the library is not named")
    def test_the_library_gets_arrays_that_texts_name(self):
        library = stof_library.load(LIBRARY)
        chosen = {family: (length, case) for family, length, case in self.cases if case.bits is not None or case.by_head and case.files}
        self.assertEqual(set(chosen), {"blocks", "checkers"})
        for length, case in chosen.values():
            q, k, v = (torch.randn(1, HEADS, length, 16) for _ in range(3))
            with mock.patch.object(library, "parse", side_effect=lambda text: stof_library.mask_of(library, case)):
                attend = stof_library.Attention(library, case.text, q, k, v)
            attend.run()
            want = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=self.dense(length, case))
            self.assertTrue(torch.allclose(attend.out, want, atol=1e-5), case.said)


if __name__ == "__main__":
    unittest.main()
