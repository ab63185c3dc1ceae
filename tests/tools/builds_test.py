#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Problems as bench/peers/builds.py is given them: their shapes, masks that STOF reads as the check does, and what is refused.

usage: builds_test.py [STOF]  (the program, which says what a mask's text allows)
"""

import argparse
import sys
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "bench"), str(ROOT / "bench/peers")]
with mock.patch.dict(sys.modules, torch=mock.MagicMock()):  # which these tests do not need
    import given_problems
    import masks
from problem_masks import allowed, said_by  # noqa: E402

STOF = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None
TEXTS = ("all", "causal", "window(7)", "causal & window(12)", "dilated(4,3)", "longformer(9,5)", "prefix(11)",
         "causal & (window(6) | sink(4))", "documents([0,13,40]) & causal")  # fmt: skip


class Problems(unittest.TestCase):
    def test_a_line_says_the_whole_problem(self):
        found = given_problems.problem_of("2x64x8192 page=64 heads=32:8 d=128 bf16 causal & (window(1024) | sink(4))")
        self.assertEqual((found.batch, found.queries, found.keys, found.page), (2, 64, 8192, 64))
        self.assertEqual((found.heads, found.kv_heads, found.head_dim, found.dtype), (32, 8, 128, "bf16"))
        self.assertEqual(found.mask.text, "causal & (window(1024) | sink(4))")

    def test_what_is_not_said_is_usual(self):
        found = given_problems.problem_of("1x50x50 heads=12 d=64 all")
        self.assertEqual((found.page, found.kv_heads, found.dtype), (0, 12, "f16"))

    def test_comments_and_empty_lines_are_no_problems(self):
        found = given_problems.problems_in("# windows\n\n1x50x50 heads=12 d=64 window(7)\n")
        self.assertEqual([text for text, _ in found], ["1x50x50 heads=12 d=64 window(7)"])

    def test_other_lines_are_refused_with_what_is_accepted(self):
        for line, said in (("1x50 heads=12 d=64 all", "accepted: BATCHxQUERIESxKEYS"),
                           ("1x50x50 page=32 heads=12 d=64 all", "accepted: BATCHxQUERIESxKEYS"),
                           ("1x51x50 heads=12 d=64 all", "51 queries over 50 keys"),
                           ("1x50x50 heads=12 d=64 tree(4)", "mask 'tree(4)'; accepted: all; causal; window(N)"),
                           ("1x50x50 heads=12 d=64 documents([3,5]) & causal", "accepted: all; causal")):  # fmt: skip
            with self.assertRaises(ValueError) as error:
                given_problems.problem_of(line)
            self.assertIn(said, str(error.exception))

    def test_builds_have_names_and_may_name_a_kernel(self):
        self.assertEqual(given_problems.build_of("a=x/libstof.so"), ("a", "x/libstof.so", None))
        self.assertEqual(given_problems.build_of("b=libstof.so:band_attention"), ("b", "libstof.so", "band_attention"))
        for text in ("libstof.so", "=libstof.so", "a="):
            with self.assertRaises(argparse.ArgumentTypeError):
                given_problems.build_of(text)


class Masks(unittest.TestCase):
    def test_a_named_mask_has_its_text(self):
        for text in TEXTS:
            self.assertEqual(masks.named(text, 70).text, text)
        self.assertEqual(len(TEXTS) + 1, len(masks.NAMED), "all but bigbird, whose table needs torch")

    @unittest.skipUnless(STOF, "the program is not named")
    def test_stof_reads_it_as_the_check_does(self):
        for text in TEXTS:
            problem = given_problems.problem_of(f"1x60x70 heads=2 d=64 {text}")
            self.assertEqual(said_by(STOF, problem), allowed(problem), text)


if __name__ == "__main__":
    unittest.main()
