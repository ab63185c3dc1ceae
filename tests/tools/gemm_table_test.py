#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/gemm_table.py on what bench_gemm writes: of wrong results there is no table, and each is named."""

import json
import sys
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import gemm_table  # noqa: E402


def row(setting, **more):
    return {"rows": 128, "shape": "qkv", "columns": 2304, "inner": 768, "pack": "plain", "setting": setting, "hot_us": 2.0,
            "cold_us": 3.0, "predicted_us": 2.0, "error": 4e-4, **more}  # fmt: skip


def written(rows):
    """What goes into the page of a report of an H200, by mark."""
    report = {"device": "NVIDIA H200", "cublaslt": "13", "dtype": "f16", "rows": rows}
    with mock.patch.object(gemm_table, "results_named", return_value=["file", "predicted"]), \
            mock.patch.object(gemm_table, "read", return_value=report), mock.patch.object(gemm_table, "link", return_value="file"), \
            mock.patch.object(gemm_table, "paste") as paste, mock.patch.object(gemm_table, "choices", return_value=""), \
            mock.patch.object(gemm_table, "layer", return_value=""):  # fmt: skip
        gemm_table.main()
    return {call.args[1]: call.args[2] for call in paste.call_args_list}


class Wrong(unittest.TestCase):
    def test_right_results_become_a_table(self):
        text = written([row("cublaslt", error=0.0), row("wgmma 128x128 k64", hot_us=1.0)])["plain"]
        self.assertIn("| 128 | qkv | 2304, 768 | 2.00 / 3.00 | 1.00 / 3.00 | 2.00 | 128x128 |", text)

    def test_a_wrong_result_is_named_and_ends_the_program(self):
        untimed = row("wgmma 128x128 k64", wrong="relative error nan")
        untimed.pop("hot_us")
        for bad, why in ((untimed, "relative error nan"), (row("wgmma 128x128 k64", error=None), "relative error None"),
                         (row("wgmma 128x128 k64", error=2e-3), "relative error 0.002")):  # fmt: skip
            with self.assertRaises(SystemExit) as ended:
                written([row("cublaslt", error=0.0), bad])
            self.assertEqual(str(ended.exception), f"file has wrong results:\n128 rows, qkv, plain, wgmma 128x128 k64: {why}")

    def test_stored_results_are_right(self):
        for path in ROOT.glob("bench/results/*-gemm.json"):
            self.assertEqual(gemm_table.wrong_in(json.loads(path.read_text(encoding="utf-8"))["rows"]), [], path)


if __name__ == "__main__":
    unittest.main()
