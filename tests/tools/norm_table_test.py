#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/norm_table.py on what bench_norms writes: the grid of a row is the one that the row says was kept."""

import sys
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import norm_table  # noqa: E402


class Norms(unittest.TestCase):
    def test_a_row_says_which_grid_was_kept(self):
        times = {name: dict.fromkeys(norm_table.STATES, us) for name, us in (("sum_norm", 8.0), ("c2", 2.0), ("c4", 4.0))}
        report = {"commit": "abc", "device": "GPU", "dtype": "f16", "protocol": "",
                  "rows": [{"rows": 4096, "columns": 768, "kept": "c2", "times": times}]}  # fmt: skip
        with mock.patch.object(norm_table, "results_named", return_value=["file"]), mock.patch.object(norm_table, "read", return_value=report), \
                mock.patch.object(norm_table, "link", return_value="file"), mock.patch.object(norm_table, "paste") as paste:  # fmt: skip
            norm_table.main()
        text = paste.call_args.args[2]
        self.assertIn("| 4,096 | 768 | 8.00 / 8.00 / 8.00 | 2.00 / 2.00 / 2.00 | 6.29 |", text)
        self.assertNotIn("Whole models", text)


if __name__ == "__main__":
    unittest.main()
