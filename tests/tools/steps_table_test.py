#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of steps of a server: what a row says of its items, STOF by two calls and by lists on the device, who is behind."""

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
    from step_problems import Item, StepProblem
from report_tables import table_of  # noqa: E402

MIXED = StepProblem((Item(1, 2000), Item(4, 3000), Item(512, 8192), Item(17, 17)), 64, masks.causal())
DECODING = StepProblem((Item(1, 900), Item(1, 900)), 16, masks.sliding(128), family="sliding")


def row(problem, peers, floors=(10.0, 5.0), in_l2=False):
    timed = {name: {"median_us": us} if isinstance(us, float) else {"refused": us} for name, us in peers.items()}
    floors_us = dict(zip(("memory", "tensor cores"), floors))
    limit, floor = max(floors_us.items(), key=lambda one: one[1])
    return {"id": problem.name, "place": 0, **problem.facts(), "bytes": round(floors[0] * 4.3e6), "in_l2": in_l2, "floors_us": floors_us,
            "floor_us": floor, "floor_of": limit, "peers": timed}  # fmt: skip


def table(*rows):
    return table_of({"steps": "fixed", "device": "NVIDIA H200", "rows": list(rows)})


class Steps(unittest.TestCase):
    def test_a_row_says_what_its_items_are(self):
        head, lines, _ = table(row(MIXED, {"stof": 20.0, "stof_two": 25.0, "stof_device": "no such lists", "fa4": 30.0}),
                               row(DECODING, {"stof": 20.0, "stof_two": 10.0, "fa4": 10.0, "cudnn_graph": 9.0}))  # fmt: skip
        self.assertEqual({len(line) for line in lines}, {len(head)})
        self.assertEqual(lines[0], ["32:8", "128", "f16", "2 x 1 to 4 over 2,000 to 3,000", "512 of 8,192; 17 of 17", "pages of 64",
                                    "`causal`", "534", "13,209", "10.0", "memory", "15.0", "20.0", "0.50", "25.0", "", "fa4", "30.0",
                                    "1.50"])  # fmt: skip
        self.assertEqual(lines[1][3:5], ["2 x 1 over 900", ""])
        _, planned, _ = table(row(replace(DECODING, planned=512), {"stof": 20.0}))
        self.assertEqual(planned[0][3], "2 x 1 over 900 in a plan for 512")
        self.assertEqual(lines[1][-3:], ["cudnn_graph", "9.00", "0.45"])  # other calls of STOF are no peers

    def test_notes_are_by_kind_of_step(self):
        _, _, notes = table(row(MIXED, {"stof": 20.0, "stof_two": 25.0, "stof_device": "no such lists", "fa4": 40.0}),
                            row(DECODING, {"stof": 20.0, "stof_two": 10.0, "stof_device": "no such lists", "fa4": 10.0}))  # fmt: skip
        mixed = "32:8 heads, d 128, f16: 2 x 1 to 4 over 2,000 to 3,000 beside 512 of 8,192; 17 of 17, pages of 64, `causal`"
        alone = "32:8 heads, d 128, f16: 2 x 1 over 900, pages of 16, `causal & window(128)`"
        self.assertIn(f"decoding beside chunks: 1 rows, share of the floor 0.50 ({mixed}) to 0.50; of both floors 0.75 to 0.75", notes)
        self.assertIn(f"decoding alone: 1 rows with a peer, best peer / STOF, geometric mean 0.50, least 0.50 ({alone}); behind in 1", notes)
        self.assertIn(f"pages of 64: 1 rows with a peer, best peer / STOF, geometric mean 2.00, least 2.00 ({mixed}); behind in 0", notes)
        self.assertIn(f"together: 2 rows with a peer, best peer / STOF, geometric mean 1.00, least 0.50 ({alone}); behind in 1", notes)
        self.assertIn("STOF by two calls / by one call with lists of the host: 2 rows, geometric mean 0.79, least 0.50 "
                      f"({alone})", notes)  # fmt: skip
        self.assertIn("stof_device: timed in 0 of 2 rows; else no such lists", notes)
        self.assertIn("fa4: timed in 2 of 2 rows", notes)
        self.assertFalse(any(note.startswith("stof:") for note in notes), notes)

    def test_rows_without_a_time_of_stof_are_told(self):
        failed = row(MIXED, {"fa4": 40.0})
        failed["peers"]["stof"] = {"failed": "WrongOutput: item of 1 queries"}
        _, lines, notes = table(failed, row(DECODING, {"stof": 20.0, "fa4": 30.0}, in_l2=True))
        self.assertEqual(len(lines), 1)
        self.assertIn("stof: timed in 1 of 2 rows; else WrongOutput: item of 1 queries", notes)
        self.assertIn("the L2 holds the keys of 1 rows from one launch to the next: their floor is none", notes)


if __name__ == "__main__":
    unittest.main()
