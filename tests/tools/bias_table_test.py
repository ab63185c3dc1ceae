#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/bias_table.py: the fastest of each way, what a bias costs, who is the best peer, and rows without times."""

import sys
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import bias_table  # noqa: E402


def row(bias, family="causal", **times):
    peers = {name: {"failed": us} if isinstance(us, str) else {"median_us": us} for name, us in times.items()}
    if "median_us" in peers.get("stof", {}):
        peers["stof"] |= {"kernel": "stream_attention", "instance": "stream_f16", "predicted_us": 11.0}
    return {"id": family, "mask": family, "family": family, "shape": [1, 12, 4096, 64], "kv_heads": 12, "keys": 4096, "dtype": "f16",
            "bias": bias, "density": 0.5, "peers": peers}  # fmt: skip


BUCKETS = row("buckets(128)", "all", stof=10.0, stof_unbiased=8.0, flex128_table=40.0, flex64_table=30.0, sdpa_dense_efficient=25.0)
ALIBI = row("alibi(4095)", stof=10.0, stof_unbiased=5.0, flex128_table=40.0, flex64_linear=20.0, sdpa_dense_efficient="WrongOutput: relative error 3.00e-02")
UNTIMED = row("alibi(4095)", "window(8)", stof="CUDA error", stof_unbiased=5.0, flex128_table=40.0)


class Table(unittest.TestCase):
    def test_a_line_has_the_fastest_of_each_way(self):
        self.assertEqual(bias_table.line_of(BUCKETS), ["(1,12,4096,64) f16 `all` buckets(128)", "stream_f16", "11.0", "10.0", "8.00", "1.25", "30.0", "-",
                                                       "25.0", "sdpa_dense_efficient", "2.50"])  # fmt: skip
        self.assertEqual(bias_table.line_of(ALIBI), ["(1,12,4096,64) f16 `causal` alibi(4095)", "stream_f16", "11.0", "10.0", "5.00", "2.00", "40.0", "20.0",
                                                     "-", "flex64_linear", "2.00"])  # fmt: skip

    def test_rows_without_a_time_stay(self):
        self.assertEqual(bias_table.line_of(UNTIMED), ["(1,12,4096,64) f16 `window(8)` alibi(4095)", "-", "-", "-", "5.00", "-", "40.0", "-", "-",
                                                       "flex128_table", "-"])  # fmt: skip

    def test_notes_are_by_kind(self):
        self.assertEqual(bias_table.notes([BUCKETS, ALIBI, UNTIMED]), [
            "buckets: 1 rows, best peer / STOF, geometric mean 2.50, least 2.50 ((1,12,4096,64) f16 `all`)",
            "buckets: with the bias / without, geometric mean 1.25, most 1.25 ((1,12,4096,64) f16 `all`)",
            "alibi: 1 rows, best peer / STOF, geometric mean 2.00, least 2.00 ((1,12,4096,64) f16 `causal`)",
            "alibi: with the bias / without, geometric mean 2.00, most 2.00 ((1,12,4096,64) f16 `causal`)",
            "failed or wrong in so many of the 3 rows: sdpa_dense_efficient 1 (WrongOutput: relative error ...); stof 1 (CUDA error)"])  # fmt: skip

    def test_the_page_has_room_for_it(self):
        data = {"device": "GPU", "rows": [BUCKETS, ALIBI]}
        with mock.patch.object(bias_table, "results_named", return_value=[Path("c.json")]), mock.patch.object(bias_table, "read", return_value=data), \
                mock.patch.object(Path, "write_text") as written:  # fmt: skip
            bias_table.main()
        text = written.call_args.args[0]
        self.assertIn("\n<!-- bias -->\n[bench/results/c.json](../../bench/results/c.json): GPU.\n\n| problem | STOF | ", text)
        self.assertIn("| 2.50 |\n", text)


if __name__ == "__main__":
    unittest.main()
