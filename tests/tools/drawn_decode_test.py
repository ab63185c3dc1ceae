#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decode problems: those that a seed draws are the same again, fit a GPU, and have masks that STOF reads as the peers do;
those that are fixed keep their names, and tables tell the two apart.

usage: drawn_decode_test.py [STOF]  (the program, which says what a mask's text allows)
"""

import sys
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "bench"), str(ROOT / "bench/peers")]
with mock.patch.dict(sys.modules, torch=mock.MagicMock()):  # which these tests do not need
    import decode_case
    import drawn_decode
    import masks
from problem_masks import allowed, said_by  # noqa: E402
from report_tables import table_of  # noqa: E402

STOF = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None


def drawn(count=72, seed=1):
    return drawn_decode.drawn_problems(seed, count)


class Drawn(unittest.TestCase):
    def test_a_seed_draws_the_same_again(self):
        names = [problem.name for problem in drawn()]
        self.assertEqual(names, [problem.name for problem in drawn()])
        self.assertEqual(names[:10], [problem.name for problem in drawn(10)])
        self.assertNotEqual(names, [problem.name for problem in drawn(seed=2)])
        self.assertEqual(len(set(names)), len(names))

    def test_every_kind_of_problem_is_drawn(self):
        found = drawn()
        self.assertEqual({problem.family for problem in found}, set(drawn_decode.FAMILIES))
        self.assertEqual({problem.page for problem in found}, {0, 16, 64, 128})
        self.assertEqual({problem.dtype for problem in found}, {"f16", "bf16"})
        self.assertEqual({(problem.heads, problem.kv_heads) for problem in found}, set(drawn_decode.HEADS))
        self.assertTrue(any(problem.page and problem.keys % problem.page for problem in found))

    def test_sizes_are_what_the_kernel_and_a_gpu_take(self):
        for problem in drawn(200):
            self.assertLessEqual(1, problem.queries)
            self.assertLessEqual(problem.queries, 16)
            self.assertTrue(300 <= problem.keys <= 131072, problem.name)
            values = problem.batch * problem.kv_heads * problem.keys * problem.head_dim
            self.assertLess(values, 2**31)
            self.assertLessEqual(4 * values, 8e9)

    @unittest.skipUnless(STOF, "the program is not named")
    def test_stof_reads_the_masks_as_the_peers_are_given_them(self):
        short = [problem for problem in drawn(200) if problem.queries * problem.keys < 30000]
        self.assertEqual({problem.family for problem in short}, set(drawn_decode.FAMILIES))
        short += [decode_case.Problem(1, keys, 0, masks.sink_or_window(4, 4096)) for keys in (300, 8192)]
        for problem in short:
            self.assertEqual(said_by(STOF, problem), allowed(problem), problem.name)

    def test_documents_are_those_of_both_positions(self):
        allows = masks.few_documents([3, 7]).allows
        of = lambda position: (position >= 3) + (position >= 7)
        for q in range(10):
            for k in range(10):
                self.assertEqual(bool(allows(q, k)), k <= q and of(q) == of(k), (q, k))


class Fixed(unittest.TestCase):
    def test_names_and_bytes_are_those_of_earlier_results(self):
        found = decode_case.fixed_problems()
        self.assertEqual(len(found), 72)
        self.assertEqual(found[0].name, "batch 1 keys 8192 rows all")
        self.assertEqual(found[-1].name, "batch 64 keys 131072 pages of 128 sink(4) | window(4096)")
        self.assertEqual(found[0].bytes_of(8192), 2 * 2 * 8 * 8192 * 128 + 2 * 2 * 32 * 128)
        self.assertNotIn("family", found[0].facts())

    def test_keys_count_once_for_each_key_head(self):
        problem = decode_case.Problem(2, 1000, 0, masks.causal(), heads=6, kv_heads=3, head_dim=64, queries=5)
        self.assertEqual(problem.bytes_of(700), 2 * (2 * 2 * 3 * 700 * 64 + 2 * 2 * 6 * 5 * 64))


class Tables(unittest.TestCase):
    def row(self, problem, us, peer, in_l2=False):
        return {"id": problem.name, "place": 0, **problem.facts(), "bytes": 34_400_000, "in_l2": in_l2, "floor_us": 8.0,
                "peers": {"stof": {"median_us": us}, "fa4": {"median_us": peer}}}  # fmt: skip

    def test_drawn_rows_say_their_shape_and_have_means_together(self):
        one, several = next(p for p in drawn() if p.queries == 1), next(p for p in drawn() if p.queries > 1)
        head, lines, notes = table_of({"rows": [self.row(one, 10.0, 20.0), self.row(several, 10.0, 5.0, in_l2=True)]})
        self.assertEqual(head[:5], ["heads", "d", "dtype", "queries", "items"])
        self.assertEqual(lines[0][:4], [f"{one.heads}:{one.kv_heads}", f"{one.head_dim}", one.dtype, "1"])
        self.assertIn("8.00, in the L2", lines[1])
        self.assertTrue(any(note.startswith("together: 2 rows with a peer, best peer / STOF, geometric mean 1.00, least 0.50 (")
                            and several.mask.text in note for note in notes), notes)  # fmt: skip
        self.assertTrue(any(note.startswith("one query: 1 rows with a peer, best peer / STOF, geometric mean 2.00") for note in notes))
        self.assertTrue(any(note.startswith("the L2 holds the keys of 1 rows") for note in notes))

    def test_fixed_rows_have_no_columns_for_what_they_share(self):
        head, _, notes = table_of({"rows": [self.row(decode_case.fixed_problems()[0], 10.0, 20.0)]})
        self.assertEqual(head[0], "items")
        self.assertIn("`all`: 1 rows, share of the floor 0.80 (1 x 8,192 in rows, `all`) to 0.80", notes)
        self.assertFalse(any(note.startswith("together") for note in notes))


if __name__ == "__main__":
    unittest.main()
