#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is too deep, too long or too large is refused by every command that takes it, at once and in few words.

usage: limits_test.py STOF
"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import npy
import small_model

STOF = sys.argv.pop(1)
DEEP = "(" * 10000 + "causal" + ")" * 10000
SHOWN = f"mask: nested deeper than 150 levels\n  ...{'(' * 120}...\n{' ' * 65}^"


class Limits(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def refused(self, arguments, code, message):
        done = subprocess.run([STOF, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr.splitlines()[-message.count("\n") - 1 :]),
                         (code, f"stof: {message}".splitlines()))  # fmt: skip

    def test_a_mask_nested_10000_deep(self):
        model = small_model.write(self.folder / "model")
        q, out = self.folder / "q.npy", self.folder / "out.npy"
        npy.write(q, (1, 1, 2, 4), [0.0] * 8)
        for arguments in (
            ("mask", DEEP, "--seq", 8),
            ("plan", DEEP, "--shape", "1,1,8,16"),
            ("attention", "--q", q, "--k", q, "--v", q, "--out", out, "--mask", DEEP),
            ("run", "--model", model, "--text", "hello", "--mask", DEEP),
            ("tune", "--model", model, "--seq", 8, "--mask", DEEP),
            ("bench", "attention", "--mask", DEEP, "--shape", "1,1,8,16"),
        ):
            with self.subTest(arguments[0]):
                self.refused(arguments, 2, SHOWN)
        self.assertFalse(out.exists())

    def test_a_table_of_a_billion_rows_in_a_small_file(self):
        table = self.folder / "table.npy"
        header = "{'descr': '|b1', 'fortran_order': False, 'shape': (1000000000, 1000000000), }"
        table.write_bytes(b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + header.ljust(117).encode() + b"\n" + b"\0" * 64)
        self.refused(("mask", f"bits('{table}')", "--seq", 8), 2,
                     f"mask: cannot read '{table}': bool [1000000000, 1000000000] needs 1000000000000000000 bytes of data, but "
                     f"it has 64\n  bits('{table}')\n       ^")  # fmt: skip

    def test_a_header_of_a_gigabyte(self):
        model = Path(small_model.write(self.folder / "model"))
        file = model / "model.safetensors"
        file.write_bytes((10**9).to_bytes(8, "little"))
        os.truncate(file, 8 + 10**9)  # sparse: takes no room
        for arguments in (("run", "--model", model, "--text", "hello"), ("graph", "--model", model), ("tune", "--model", model)):
            with self.subTest(arguments[0]):
                self.refused(arguments, 2, f"{file}: header of 1000000000 bytes; accepted: at most 100000000")

    def test_a_billion_tokens(self):
        too_many = ("a mask of 1000000000 queries and 1000000000 keys has 2.44e+14 blocks of 64 x 64; at most 1.72e+10 are "
                    "planned")  # fmt: skip
        self.refused(("mask", "causal", "--seq", 10**9), 3, too_many)
        self.refused(("plan", "causal", "--shape", f"1,1,{10**9},64"), 3, too_many)

    def test_more_threads_than_a_team_can_have(self):
        done = subprocess.run([STOF, "plan", "all", "--shape", "1,1,8,16", "--device", "cpu"], capture_output=True, text=True,
                              timeout=60, check=False, env=dict(os.environ, OMP_NUM_THREADS="100000"))  # fmt: skip
        self.assertEqual((done.returncode, done.stderr),
                         (2, "stof: OpenMP would take 100000 threads (OMP_NUM_THREADS); accepted: at most 1024\n"))  # fmt: skip

    def test_long_arguments_are_not_repeated_whole(self):
        for arguments in (("x" * 100000,), ("plan", "all", "--shape", "1,1,8,16", "--kernel", "é" * 50000), ("doctor", "x" * 100000),
                          ("doctor", b"\x80" * 100000)):  # fmt: skip
            done = subprocess.run([STOF, *arguments], capture_output=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertLess(len(done.stderr), 4000)
            self.assertRegex(done.stderr.decode(errors="replace"), r"\.\.\. \(\d+ bytes\) \.\.\.")


if __name__ == "__main__":
    unittest.main()
