# SPDX-License-Identifier: Apache-2.0
"""What tests of models are given on their command line, LIBSTOF.SO STOF MODEL, and what they compare with: small checkpoints with
what transformers computed (tests/data/families), and the program."""

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

import given  # noqa: F401  (finds the package)

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/cli"))
import npy  # noqa: E402

import stof  # noqa: E402

MODEL, STOF = Path(sys.argv.pop()), sys.argv.pop()
FAMILIES = ROOT / "tests/data/families"
BOUND = 4e-5
ALONE = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}  # of a program with sanitizers of its own
TEXTS = ["The bread rises", "x", "A storm is coming; don't leave the harbour."]


def rows(array):
    return array.tolist() if len(array) else []


def reference(family, what):
    (_, columns), _, values = npy.read(FAMILIES / family / f"{what}.npy")
    return [list(values[i : i + columns]) for i in range(0, len(values), columns)]


def texts_of(family):
    lines = (FAMILIES / "texts.txt").read_text(encoding="utf-8").split("\n")
    return [line for line, length in zip(lines, npy.read(FAMILIES / family / "lengths.npy")[2]) if length > 0]


def generated(family, texts, *arguments):
    """What the program says."""
    done = subprocess.run([STOF, "generate", "--device", "cpu", "--model", FAMILIES / family, "--input", "-", "--json", "-", *map(str, arguments)],
                          input="\n".join(texts), capture_output=True, text=True, encoding="utf-8", timeout=120, check=True, env=ALONE)  # fmt: skip
    return json.loads(done.stdout)["texts"]


class Models(unittest.TestCase):
    def load(self, family, **options):
        session = stof.Session(FAMILIES / family, **{"device": "cpu", "threads": 1, **options})  # others may keep the cores
        self.addCleanup(session.close)
        return session

    def expect_close(self, got, want, bound=BOUND):
        self.assertEqual(len(got), len(want))
        for a, b in zip(got, want):
            self.assertEqual(len(a), len(b))
            self.assertLessEqual(max(abs(x - y) for x, y in zip(a, b)), bound)
