#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables of Longformer and of continuous batching, also where contenders fail.

usage: calls_table_test.py
"""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import report_tables  # noqa: E402


def timed(ms, **more):
    return {"median_us": 1e3 * ms, "calls": 15, "worst_row": 2e-3, **more}


class Tables(unittest.TestCase):
    def longformer(self, *peers):
        rows = [{"texts": 1, "longest": 4096, "global_tokens": 0, "peers": one} for one in peers]
        return report_tables.table_of({"command": "peers longformer cuda", "rows": rows})

    def test_longformer_beside_one_and_several(self):
        head, (row,), notes = self.longformer({"stof": timed(2), "transformers": timed(30)})
        self.assertEqual(head[3:], ["stof, ms", "transformers, ms", "transformers / STOF", "worst row of STOF"])
        self.assertEqual((row, notes), (["1", "4,096", "0", "2.00", "30.0", "15.0", "2.0e-03"], ["medians of 15 calls, in turns"]))
        head, (row,), _ = self.longformer({"stof": timed(2), "transformers": timed(30), "transformers, compiled": timed(10)})
        self.assertEqual((head[6], row[6]), ("best of them / STOF", "5.0"))

    def test_embeddings_have_no_global_tokens(self):
        rows = [{"texts": 32, "longest": 64, "peers": {"stof": timed(2), "transformers": timed(30)}}]
        head, (row,), _ = report_tables.table_of({"command": "peers embedding_gemma cuda", "rows": rows})
        self.assertEqual(head[:4], ["texts", "tokens", "stof, ms", "transformers, ms"])
        self.assertEqual(row, ["32", "64", "2.00", "30.0", "15.0", "2.0e-03"])

    def test_encoders_of_several_models_and_types(self):
        peers = {"stof": timed(2), "transformers": timed(30), "transformers, reduce-overhead": timed(5)}
        rows = [{"model": model, "dtype": "f16", "texts": 8, "longest": 512, "peers": peers} for model in ("mpnet-base", "t5-base")]
        head, table, notes = report_tables.table_of({"command": "peers encoders cuda", "rows": rows})
        self.assertEqual(report_tables.table_of({"command": "peers biased_encoders cuda", "rows": rows}), (head, table, notes))
        self.assertEqual(head[:5], ["model", "dtype", "texts", "tokens", "stof, ms"])
        self.assertEqual(table[1], ["t5-base", "f16", "8", "512", "2.00", "30.0", "5.00", "2.5", "2.0e-03"])

    def test_longformer_with_failures(self):
        failed = {"failed": "RuntimeError: out of memory. Tried"}
        _, rows, notes = self.longformer({"stof": failed, "transformers": timed(30)}, {"stof": timed(2), "transformers": failed})
        self.assertEqual([row[3:] for row in rows], [["", "30.0", "", ""], ["2.00", "", "", "2.0e-03"]])
        self.assertEqual(notes[1:], ["stof: RuntimeError: out of memory", "transformers: RuntimeError: out of memory"])
        self.assertEqual(self.longformer({"stof": failed})[1][0][3:], ["", "", ""])

    def test_continuous(self):
        peer = {**timed(1000), "each": {"median_us": 100.0}, "same_first": 5, "gap": 0.125}
        rows = [{"id": "by itself", "peers": {"sdpa": peer, "stof": peer, "flash": {"failed": "ValueError: none. Sorry"}}}, {"id": "graphs", "peers": {"stof": peer}}]
        data = {"command": "peers continuous cuda", "model": "M", "dtype": "bf16", "requests": 6, "least": 1, "most": 2000, "made": 3, "rows": rows}
        _, table, notes = report_tables.table_of(data)
        self.assertEqual(table, [["by itself", "sdpa", "1.00", "100", "", "0.12"], ["by itself", "stof", "1.00", "100", "5 of 6", "0.12"],
                                 ["graphs", "stof", "1.00", "100", "", "0.12"]])  # fmt: skip
        self.assertEqual(notes, ["M's sizes, bf16, 6 requests of 1 to 2,000 tokens, 3 behind each", "flash: ValueError: none"])


if __name__ == "__main__":
    unittest.main()
