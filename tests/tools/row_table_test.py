#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/row_table.py on what bench_rows predicts, and on the same with times: what was predicted stays beside what was measured.

usage: tests/tools/row_table_test.py BENCH_ROWS [unittest's arguments]
"""

import json
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import row_table  # noqa: E402

PROGRAM = None


def predicted(*kernels):
    done = subprocess.run([PROGRAM, "--predicted", *kernels], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def measured(report):
    """Twice what was predicted, where rows fit to and fro too."""
    for row in report["rows"]:
        us = 2 * row["predicted_us"]
        row["times"] = {"hot_us": 1.0, "rotating_us": us}
        if row["kernel"] in ("rms_norm_kernel", "add_rows_kernel"):
            row["times"]["to_and_fro_us"] = 1.5
    return {"commit": "abc", "device": "GPU", "driver": "1.2", "dtype": "f16", **report}


def tables_of(report):
    with mock.patch.object(row_table, "results_named", return_value=[Path("rows.json")]), \
            mock.patch.object(row_table, "read", return_value=report), mock.patch.object(row_table, "paste") as paste:  # fmt: skip
        row_table.main()
    return {call.args[1]: call.args[2] for call in paste.call_args_list}


class Tables(unittest.TestCase):
    def test_every_kernel_is_in_one(self):
        report = predicted()
        tables = tables_of(report)
        self.assertEqual(set(tables), set(row_table.TABLES))
        lines = [line for text in tables.values() for line in text.splitlines() if line.startswith("| `")]
        self.assertEqual(len(lines), len(report["rows"]))

    def test_predictions_alone(self):
        text = tables_of(predicted())["norms-of-decoders"]
        self.assertIn("rows.json): predicted, and nothing measured yet.\n", text)
        self.assertIn("| `rms_norm_kernel` | 4,096 | 4,096 columns | 67.1 MB | 17.8 |\n", text)
        self.assertIn("| `rotate_normed_kernel`, in place | 1 | 32 + 8 heads of 128 | 22 KB | 1.0 |\n", text)

    def test_what_was_measured_stands_beside(self):
        tables = tables_of(measured(predicted()))
        norms, copies = tables["norms-of-decoders"], tables["copies"]
        self.assertIn("rows.json): GPU, f16, driver 1.2, of abc; ", norms)
        self.assertIn("| `rms_norm_kernel` | 4,096 | 4,096 columns | 67.1 MB | 17.8 | 1.00 / 1.50 / 35.56 | 1.89 |\n", norms)
        self.assertIn("| `copy_rows_kernel`, to listed rows | 4,096 | 4,096 bytes | 33.6 MB | 9.4 | 1.00 / - / 18.79 | 1.79 |\n", copies)

    def test_tables_of_other_kernels_stay(self):
        self.assertEqual(set(tables_of(measured(predicted("gate_kernel", "turn_heads_kernel")))), {"halves-and-sums"})


class Program(unittest.TestCase):
    def test_says_what_it_takes(self):
        for arguments, said in (([], "accepted: COMMIT [KERNEL...], --predicted [KERNEL...]"),
                                (["--predicted", "none"], "no kernel 'none'; accepted: rms_norm_kernel row_norm_kernel rotate_normed_kernel "
                                 "turn_heads_kernel gate_kernel add_rows_kernel copy_rows_kernel")):  # fmt: skip
            done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (1, f"bench_rows: {said}\n"))


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
