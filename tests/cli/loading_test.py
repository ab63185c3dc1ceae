#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model that takes long to load, which every command that loads one says on stderr, and nothing of it on stdout.

usage: loading_test.py STOF
"""

import os
import pty
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import small_model
from slow_file import opens_after

STOF = sys.argv.pop(1)


class Loading(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.model = small_model.write(self.folder / "model")
        self.environment = dict(os.environ, XDG_CACHE_HOME=str(self.folder / "cache"), OMP_WAIT_POLICY="passive")

    def slowly(self, *arguments, stderr=subprocess.PIPE):
        try:
            with opens_after(3, self.model / "config.json"):
                done = subprocess.run([STOF, *map(str, arguments)], stdout=subprocess.PIPE, stderr=stderr, text=True,
                                      timeout=120, check=False, env=self.environment)  # fmt: skip
        except OSError as error:
            self.skipTest(f"no leases on this file system: {error}")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def read_all(self, controller):
        said = b""
        try:
            while piece := os.read(controller, 1 << 16):
                said += piece
        except OSError:  # nobody has the terminal open any more
            pass
        return said.decode()

    def test_what_loads_a_model(self):
        grid = ("bench", "model", "--part", "grid", "--shape", "1,8", "--dtype", "f32", "--mask", "all", "--seconds", "0.02")
        sentences = self.folder / "sentences.txt"
        sentences.write_text("hello world\n")
        (self.folder / "queries.txt").write_text("a\n")
        for arguments in (
            ("run", "--model", self.model, "--text", "hello"),
            ("graph", "--model", self.model),
            ("tune", "--model", self.model, "--seq", 8, "--threads", 1),
            ("demo", "--model", self.model, "--part", "text", "--data", self.folder),
            (*grid, "--encoder", self.model, "--threads", 1),
        ):
            with self.subTest(arguments[0]):
                done = self.slowly(*arguments, *(() if arguments[0] == "graph" else ("--device", "cpu")))
                self.assertRegex(done.stderr, r"loading the model  [23] s\n")
                self.assertNotIn("loading the model", done.stdout)

    def test_a_file_that_opens_late_is_no_other(self):
        run = ("run", "--model", self.model, "--text", "hello", "--device", "cpu")
        quick = subprocess.run([STOF, *map(str, run)], capture_output=True, text=True, check=True, env=self.environment)
        self.assertNotIn("loading the model", quick.stderr)
        self.assertEqual(self.slowly(*run).stdout, quick.stdout)

    def test_on_a_terminal_in_place(self):
        controller, terminal = pty.openpty()
        self.addCleanup(os.close, controller)
        self.slowly("run", "--model", self.model, "--text", "hello", "--device", "cpu", stderr=terminal)
        os.close(terminal)
        said = self.read_all(controller)
        self.assertRegex(said, r"^\rloading the model  [23] s ")
        self.assertRegex(said, r" \r\n\rembedding \[")  # the line is ended, and the bar has its own


if __name__ == "__main__":
    unittest.main()
