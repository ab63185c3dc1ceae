#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libstof.so exports the functions that its headers declare, and nothing else.

usage: exports_test.py NM LIBSTOF.SO VERSION HEADER...
"""

import re
import subprocess
import sys
import unittest
from pathlib import Path

import c_library

NM, LIBRARY, VERSION, *HEADERS = sys.argv[1:]
del sys.argv[1:]


class Exports(unittest.TestCase):
    def test_symbols(self):
        declared = {name for header in HEADERS for name in re.findall(r"\b(stof_\w+)\(", Path(header).read_text(encoding="utf-8"))}
        listed = subprocess.run([NM, "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True).stdout
        exported = {line.split()[-1] for line in listed.splitlines()}
        self.assertGreater(len(declared), 10)
        self.assertEqual(exported, declared)
        self.assertEqual(set(c_library.FUNCTIONS), declared)

    def test_version(self):
        library = c_library.load(LIBRARY)
        self.assertEqual(library.stof_version().decode(), VERSION)
        self.assertEqual(library.stof_last_error(), b"")


if __name__ == "__main__":
    unittest.main()
