#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The first three parts of stof demo: what they print is there, and the numbers in it are good.

usage: demo_test.py STOF MODEL
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

MODEL = Path(sys.argv.pop())
STOF = sys.argv.pop()
ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "tests/data/minilm_embeddings.npy"


def demo(data=ROOT / "data", model=MODEL):
    return subprocess.run(
        [STOF, "demo", "--part", "text", "--model", model, "--data", data, "--reference", REFERENCE],
        capture_output=True, text=True, timeout=600, check=False)  # fmt: skip


def sha256(file):
    return hashlib.sha256(file.read_bytes()).hexdigest()


class Demo(unittest.TestCase):
    def test_the_checkpoint_is_the_one_of_the_reference(self):
        made_from = json.loads(REFERENCE.with_suffix(".json").read_text())
        self.assertTrue(MODEL.is_dir(), f"{MODEL} is missing: run make model")
        self.assertEqual(sha256(MODEL / "model.safetensors"), made_from["model_sha256"])
        self.assertEqual(sha256(ROOT / "data/sentences.txt"), made_from["sentences_sha256"])

    def test_numbers(self):
        done = demo()
        self.assertEqual(done.returncode, 0, done.stderr)
        from_reference = re.search(r"largest difference of a component: (\S+), over 300 embeddings", done.stdout)
        self.assertIsNotNone(from_reference, done.stdout)
        self.assertLessEqual(float(from_reference[1]), 2e-5)
        from_padded = re.search(r"largest difference between the vectors: (\S+)", done.stdout)
        self.assertLessEqual(float(from_padded[1]), 2e-6)
        for query in (ROOT / "data/queries.txt").read_text().splitlines():
            self.assertIn(f"\n  {query}\n    0.", done.stdout)
        self.assertRegex(done.stderr, r"embedding \[#{40}\] 300/300")

    def test_other_sentences_are_not_compared(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "sentences.txt").write_text("One.\nTwo, and a little more.\n")
            shutil.copy(ROOT / "data/queries.txt", folder)
            done = demo(data=folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("not compared: minilm_embeddings.npy is of all-MiniLM-L6-v2", done.stdout)

    def test_missing_data(self):
        done = demo(data="nowhere")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(
            done.stderr, "stof: there is no nowhere/sentences.txt; --data names the folder with sentences.txt and queries.txt\n"
        )


if __name__ == "__main__":
    unittest.main()
