#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makefile: `make help` lists every target that a person may ask for."""

import re
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Makefile(unittest.TestCase):
    def test_help_lists_every_target(self):
        phony = re.search(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)[1].split()
        said = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        self.assertCountEqual(re.findall(r"^  make (\S+) +\S", said, re.MULTILINE), phony)


if __name__ == "__main__":
    unittest.main()
