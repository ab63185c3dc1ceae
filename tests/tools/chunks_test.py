#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Chunks of prompts as bench/peers/decode.py times them: those that a seed draws are the same again, fit a GPU, and have masks
that STOF reads as the peers do; tables say what bounds a row, what pages cost, and how many rows are behind.

usage: chunks_test.py [STOF]  (the program, which says what a mask's text allows)
"""

import sys
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "bench"), str(ROOT / "bench/peers")]
with mock.patch.dict(sys.modules, torch=mock.MagicMock()):  # which these tests do not need
    import chunk_problems
    import decode_case
    import masks
from problem_masks import allowed, said_by  # noqa: E402
from report_tables import table_of  # noqa: E402

STOF = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None


def drawn(count=72, seed=1):
    return chunk_problems.drawn_chunks(seed, count)


class Drawn(unittest.TestCase):
    def test_a_seed_draws_the_same_again(self):
        names = [problem.name for problem in drawn()]
        self.assertEqual(names, [problem.name for problem in drawn()])
        self.assertEqual(names[:10], [problem.name for problem in drawn(10)])
        self.assertNotEqual(names, [problem.name for problem in drawn(seed=2)])
        self.assertEqual(len(set(names)), len(names))

    def test_every_kind_of_problem_is_drawn(self):
        found = drawn(200)
        self.assertEqual({problem.family for problem in found}, set(chunk_problems.FAMILIES))
        self.assertEqual({problem.page for problem in found}, {0, 16, 64, 128})
        self.assertEqual({problem.dtype for problem in found}, {"f16", "bf16"})
        self.assertEqual({(problem.heads, problem.kv_heads) for problem in found}, set(chunk_problems.HEADS))
        self.assertTrue(any(problem.page and problem.keys % problem.page for problem in found))
        self.assertGreater(sum(problem.page > 0 for problem in found), 150)

    def test_sizes_are_those_of_chunks_and_fit_a_gpu(self):
        for problem in drawn(300):
            self.assertTrue(17 <= problem.queries <= 2048, problem.name)
            self.assertTrue(problem.queries <= problem.keys <= 65536, problem.name)
            self.assertTrue(problem.is_chunk)
            self.assertLessEqual(problem.flops_of(problem.queries * problem.keys), 4e12)
            values = problem.batch * problem.kv_heads * problem.keys * problem.head_dim
            self.assertLess(values, 2**31)
            self.assertLessEqual(4 * values, 8e9)

    @unittest.skipUnless(STOF, "the program is not named")
    def test_stof_reads_the_masks_as_the_peers_are_given_them(self):
        short = [problem for problem in drawn(300) if problem.queries * problem.keys < 60000]
        self.assertEqual({problem.family for problem in short}, set(chunk_problems.FAMILIES))
        for problem in short:
            self.assertEqual(said_by(STOF, problem), allowed(problem), problem.name)


class Fixed(unittest.TestCase):
    def test_every_chunk_is_there_in_rows_and_in_pages(self):
        found = chunk_problems.fixed_chunks()
        names = [problem.name for problem in found]
        self.assertEqual(len(set(names)), len(names))
        self.assertIn("batch 8 queries 512 keys 32768 pages of 16 causal", names)
        self.assertIn("batch 1 queries 2048 keys 131072 pages of 64 causal", names)
        self.assertNotIn("batch 8 queries 2048 keys 131072 rows causal", names)
        self.assertIn("batch 1 queries 512 keys 131072 rows causal & window(4096)", names)
        for problem in found:
            self.assertTrue(problem.is_chunk)
            self.assertIn(problem.name.replace(f"pages of {problem.page}", "rows"), names)

    def test_operations_are_of_all_heads_and_items(self):
        problem = decode_case.Problem(2, 1000, 0, masks.causal(), heads=6, kv_heads=3, head_dim=64, queries=50)
        self.assertEqual(problem.flops_of(700), 4 * 2 * 6 * 64 * 700)


class Tables(unittest.TestCase):
    def row(self, problem, us, peer, in_rows=None, floor_of="tensor cores"):
        beside = {"stof_rows": {"median_us": in_rows}} if in_rows else {}
        return {"id": problem.name, "place": 0, **problem.facts(), "bytes": 34_400_000 if floor_of == "memory" else 1, "in_l2": True, "floor_us": 8.0,
                "floor_of": floor_of, "peers": {"stof": {"median_us": us}, **beside, "fa4": {"median_us": peer}}}  # fmt: skip

    def test_fixed_rows_say_what_bounds_them_and_what_pages_cost(self):
        problems = chunk_problems.fixed_chunks()
        rows, pages = problems[0], next(problem for problem in problems if problem.page == 16)
        head, lines, notes = table_of({"chunks": "fixed", "rows": [self.row(rows, 10.0, 20.0),
                                                                   self.row(pages, 12.0, 9.0, in_rows=10.0)]})  # fmt: skip
        self.assertEqual(head[0], "queries")
        self.assertEqual(lines[0], ["128", "1", "8,192", "rows", "`causal`", "8.00", "tensor cores", "10.0", "0.80", "", "fa4",
                                    "20.0", "2.00"])  # fmt: skip
        self.assertEqual(lines[1][9:], ["10.0", "fa4", "9.00", "0.75"])  # what STOF takes in rows is no peer's
        where = "queries 512: 1 x 8,192 in pages of 16, `causal`"
        self.assertIn("together: 2 rows with a peer, best peer / STOF, geometric mean 1.22, "
                      f"least 0.75 ({where}); behind in 1", notes)  # fmt: skip
        self.assertIn(f"STOF in pages of 16 / in rows: 1 rows, geometric mean 1.20, most 1.20 ({where})", notes)
        self.assertFalse(any(note.startswith(("stof", "the L2")) for note in notes), notes)

    def test_drawn_rows_say_their_shape_and_of_the_l2_where_the_memory_is_the_floor(self):
        problem = next(problem for problem in drawn() if problem.page)
        head, lines, notes = table_of({"chunks": 1, "rows": [self.row(problem, 10.0, 20.0, floor_of="memory")]})
        self.assertEqual(head[:5], ["heads", "d", "dtype", "queries", "items"])
        self.assertEqual(len(head), len(lines[0]))
        self.assertIn("8.00, in the L2", lines[0])
        self.assertTrue(any(note.startswith("the L2 holds the keys of 1 rows") for note in notes))
        self.assertTrue(any(note.startswith("floor of the memory: 1 rows with a peer") and note.endswith("; behind in 0")
                            for note in notes), notes)  # fmt: skip


if __name__ == "__main__":
    unittest.main()
