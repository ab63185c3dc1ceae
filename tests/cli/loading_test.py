#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model that takes long to load.

usage: loading_test.py STOF
"""

import os
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

    def test_a_file_that_opens_late_is_no_other(self):
        run = ("run", "--model", self.model, "--text", "hello", "--device", "cpu")
        quick = subprocess.run([STOF, *map(str, run)], capture_output=True, text=True, check=True, env=self.environment)
        self.assertEqual(self.slowly(*run).stdout, quick.stdout)


if __name__ == "__main__":
    unittest.main()
