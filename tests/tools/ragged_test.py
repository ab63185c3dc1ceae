#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The two commands of docs/kernels/ragged.md for ragged batches: what the first one writes, the second one reads."""

import contextlib
import io
import json
import re
import shlex
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench/peers"), str(ROOT / "bench")]
with mock.patch.dict(sys.modules, torch=mock.MagicMock()):  # which times, and these tests do not need
    import ragged
import ragged_table  # noqa: E402


MEASURED = {"case": "few", "mask": "all", "heads": 4, "kv_heads": 2, "head_dim": 64, "planned": 100, "items": 2, "rows": 50,
            "instance": [], "us": {"host": {"before": 3.0, "after": 2.0}}, "before_over_after": {"host": 1.5}}  # fmt: skip


def documented():
    """Arguments of ragged.py, command by command, as the page has them."""
    page = ragged_table.PAGE.read_text(encoding="utf-8").replace("\\\n", " ")
    return [shlex.split(words) for words in re.findall(r"^    bench/peers/ragged\.py (.*)$", page, re.M)]


class Ragged(unittest.TestCase):
    def test_the_documented_commands_go_together(self):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "ragged.json"
            words = [*documented()[0][:-1], str(out)]
            self.assertEqual(words[-2], "--out")
            torch = mock.Mock(**{"cuda.get_device_name.return_value": "GPU", "__version__": "2", "version.cuda": "13.0"})
            with mock.patch.multiple(ragged, torch=torch, measure=lambda libraries, case, rounds: MEASURED), \
                    mock.patch.object(ragged.c_library, "Stof"), mock.patch.object(sys, "argv", ["ragged.py", *words]), \
                    contextlib.redirect_stdout(io.StringIO()):  # fmt: skip
                ragged.main()
            self.assertEqual(len(json.loads(out.read_text())["about"]["commits"]), 2)
            with mock.patch.object(ragged_table, "results_named", return_value=[out]), \
                    mock.patch.object(ragged_table, "link", return_value="file"), \
                    mock.patch.object(ragged_table, "paste") as paste:  # fmt: skip
                ragged_table.main()
        self.assertIn("us of EARLIER, of COMMIT and their ratio", paste.call_args.args[2])

    def test_some_cases_are_measured_in_so_many_rounds(self):
        asked = []
        with mock.patch.object(ragged, "measure", side_effect=lambda libraries, case, rounds: asked.append((case.name, rounds)) or MEASURED), \
                mock.patch.object(ragged.c_library, "Stof"), mock.patch.object(sys, "argv", ["ragged.py", *documented()[1]]), \
                contextlib.redirect_stdout(io.StringIO()):  # fmt: skip
            ragged.main()
        self.assertEqual(set(asked), {("few", 15), ("nearly full", 15)})
        self.assertEqual(len(asked), 6)

    def test_what_cannot_be_asked_for_is_said(self):
        for words, said in ((["--case", "fewer"], "invalid choice: 'fewer'"), (["--rounds", "0"], "--rounds 0; accepted: 1 or more")):
            with contextlib.redirect_stderr(io.StringIO()) as error, self.assertRaises(SystemExit):
                ragged.options(["one.so", *words])
            self.assertIn(said, error.getvalue())

    def test_two_libraries_are_named(self):
        for words in (["one.so", "--beside", "other.so"], ["one.so", "--commits", "a", "b"]):
            with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
                ragged.options(words)
            self.assertIn("--beside and --commits go together", said.getvalue())


if __name__ == "__main__":
    unittest.main()
