#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of draft trees: what a row says of its items, what trees cost beside a causal chunk, where keys lie for peers, who is
behind, what was not run."""

import sys
import unittest
from dataclasses import replace
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "bench"), str(ROOT / "bench/peers")]
with mock.patch.dict(sys.modules, torch=mock.MagicMock()):  # which these tests do not need
    import masks
    from step_problems import Item
    from tree_problems import TreeProblem
import join_parts  # noqa: E402
from report_tables import table_of  # noqa: E402

PAGED = TreeProblem((Item(16, 3000), Item(16, 4096)), 64, masks.causal())
ROWS = TreeProblem((Item(64, 900),), 0, masks.causal(), heads=16, kv_heads=16, head_dim=64, dtype="bf16", kind="wide")


def row(problem, peers, floors=(10.0, 5.0), in_l2=False):
    timed = {name: {"median_us": us} if isinstance(us, float) else {"refused": us} for name, us in peers.items()}
    floors_us = dict(zip(("memory", "tensor cores"), floors))
    limit, floor = max(floors_us.items(), key=lambda one: one[1])
    return {"id": problem.name, "place": 0, **problem.facts(), "bytes": round(floors[0] * 4.3e6), "in_l2": in_l2, "floors_us": floors_us,
            "floor_us": floor, "floor_of": limit, "peers": timed}  # fmt: skip


def data(*rows, **more):
    return {"trees": "fixed", "device": "NVIDIA H200", "rows": list(rows), **more}


class Trees(unittest.TestCase):
    def test_a_row_says_what_its_items_are(self):
        first = row(PAGED, {"stof": 20.0, "stof_causal": 16.0, "flex": 30.0, "fa4_pages": 35.0})
        first["peers"]["flex"]["keys_lie"] = "in rows"
        second = row(ROWS, {"stof": 20.0, "stof_causal": "no such chunk", "flex": 10.0}, (10.0, 12.0))
        second["peers"]["flex"]["keys_lie"] = "in rows"
        head, lines, _ = table_of(data(first, second))
        self.assertEqual({len(line) for line in lines}, {len(head)})
        self.assertEqual(lines[0], ["32:8", "128", "f16", "16", "random", "2", "3,000 to 4,096", "pages of 64", "10.0", "memory", "20.0",
                                    "0.50", "16.0", "1.25", "flex, in rows", "30.0", "1.50", "fa4_pages", "35.0", "1.75"])  # fmt: skip
        self.assertEqual(lines[1], ["16:16", "64", "bf16", "64", "wide", "1", "900", "rows", "12.0", "tensor cores", "20.0", "0.60", "", "",
                                    "flex", "10.0", "0.50", "flex", "10.0", "0.50"])  # fmt: skip

    def test_notes_are_by_drafts_and_by_where_keys_lie(self):
        _, _, notes = table_of(data(row(PAGED, {"stof": 20.0, "stof_causal": 16.0, "flex": 40.0}),
                                    row(ROWS, {"stof": 20.0, "stof_causal": 20.0, "flex": 10.0, "flashinfer": "no such mask"}),
                                    row(replace(PAGED, kind="chain"), {"stof": 20.0, "flex": 20.0}, in_l2=True)))  # fmt: skip
        paged = "32:8 heads, d 128, f16: 2 x 16 drafts, random, over 3,000 to 4,096 in pages of 64"
        rows = "16:16 heads, d 64, bf16: 1 x 64 drafts, wide, over 900 in rows"
        chain = paged.replace("random", "chain")
        self.assertIn(f"floor of the memory: 2 rows, share of it 0.50 ({rows}) to 0.50", notes)
        self.assertIn("the L2 holds the keys of 1 rows from one launch to the next: their floor is none", notes)
        self.assertIn(f"up to 16 drafts: 2 rows with a peer, best peer / STOF, geometric mean 1.41, least 1.00 ({chain}); behind in 0", notes)
        self.assertIn(f"keys in rows: 1 rows with a peer, best peer / STOF, geometric mean 0.50, least 0.50 ({rows}); behind in 1", notes)
        self.assertIn(f"together: 3 rows with a peer, best peer / STOF, geometric mean 1.00, least 0.50 ({rows}); behind in 1", notes)
        self.assertTrue(any(note.startswith("beside peers on the same keys: 3 rows with a peer") for note in notes), notes)
        self.assertIn("STOF with trees / a causal chunk of as many queries: 2 rows, geometric mean 1.12, most 1.25 "
                      f"({paged})", notes)  # fmt: skip
        self.assertIn("stof_causal: timed in 2 of 3 rows", notes)
        self.assertIn("flashinfer: timed in 0 of 3 rows; else no such mask", notes)
        self.assertFalse(any(note.startswith(("stof:", "without a time")) for note in notes), notes)

    def test_rows_without_a_time_are_told(self):
        failed = row(PAGED, {"flex": 40.0})
        failed["peers"]["stof"] = {"failed": "WrongOutput: item of 16 queries"}
        _, lines, notes = table_of(data(failed, row(ROWS, {"stof": 20.0}), not_run=["one", "another"]))
        self.assertEqual(len(lines), 1)
        self.assertIn("stof: timed in 1 of 2 rows; else WrongOutput: item of 16 queries", notes)
        self.assertIn("stof_causal: timed in 0 of 2 rows", notes)
        self.assertIn("without a time, since that ended: one; another", notes)

    def test_parts_join_with_what_each_did_not_run(self):
        parts = {"a": data(row(PAGED, {"stof": 20.0}), not_run=["one"]), "b": data(not_run=["two"])}
        self.assertEqual(join_parts.joined(parts)["not_run"], ["one", "two"])


if __name__ == "__main__":
    unittest.main()
