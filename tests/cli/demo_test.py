#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The first three parts of stof demo: what they print is there, and the numbers in it are good.

usage: demo_test.py STOF MODEL
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import small_model

MODEL = Path(sys.argv.pop())
STOF = os.path.abspath(sys.argv.pop())
ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "tests/data/minilm_embeddings.npy"


def demo(data=ROOT / "data", model=MODEL, reference=REFERENCE, cwd=None):
    more = ("--reference", reference) if reference else ()
    return subprocess.run([STOF, "demo", "--part", "text", "--model", model, "--data", data, *more],
                          capture_output=True, text=True, timeout=600, check=False, cwd=cwd)  # fmt: skip


def sharded(folder):
    weights = small_model.tensors()
    small_model.write(folder)
    (folder / "model.safetensors").unlink()
    files = {name: f"model-{'embed' in name:d}.safetensors" for name in weights}
    for file in set(files.values()):
        small_model.write_safetensors(folder / file, {name: weights[name] for name in weights if files[name] == file})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    return folder


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

    def test_other_sentences_are_not_compared(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "sentences.txt").write_text("One.\nTwo, and a little more.\n")
            shutil.copy(ROOT / "data/queries.txt", folder)
            done = demo(data=folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("not compared: minilm_embeddings.npy is of all-MiniLM-L6-v2", done.stdout)

    def test_a_model_in_shards_is_not_compared(self):
        with tempfile.TemporaryDirectory() as folder:
            done = demo(model=sharded(Path(folder, "model")))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("not compared: minilm_embeddings.npy is of all-MiniLM-L6-v2", done.stdout)

    def test_elsewhere_there_is_no_reference(self):
        with tempfile.TemporaryDirectory() as folder:
            model = small_model.write(Path(folder, "model"))
            done = demo(model=model, reference=None, cwd=folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("\n  not compared: there is no tests/data/minilm_embeddings.npy; --reference names it\n", done.stdout)

    def test_vectors_without_a_direction_are_near_to_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            model = small_model.write(Path(folder, "model"))
            file = model / "model.safetensors"
            whole = file.read_bytes()
            header = 8 + int.from_bytes(whole[:8], "little")
            file.write_bytes(whole[:header] + bytes(len(whole) - header))
            done = demo(model=model)
            self.assertEqual(done.returncode, 0, done.stderr)
            queries = (ROOT / "data/queries.txt").read_text().splitlines()
            none = "    none: vectors of zeros, or with NaN or infinity, have no direction\n"
            self.assertIn("".join(f"\n  {query}\n{none}" for query in queries), done.stdout)

    def test_a_reference_that_was_named_is_there(self):
        with tempfile.TemporaryDirectory() as folder:
            done = demo(model=small_model.write(Path(folder, "model")), reference="nowhere.npy", cwd=folder)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("nowhere.npy", done.stderr)

    def test_masks_need_no_model(self):
        # An unknown device ends it before minutes of measuring: after what else is needed was asked for.
        for part, code, message in (
            ("masks", 2, "unknown device 'tpu'; accepted: auto, cpu, cuda, cuda:N; to plan for: cuda:h200, cuda:h100, cuda:a100"),
            ("text", 2, "--part text needs a model: --model DIR; --part masks needs none"),
            ("all", 2, "--part all needs a model: --model DIR; --part masks needs none"),
        ):
            done = subprocess.run([STOF, "demo", "--part", part, "--device", "tpu"], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual((done.returncode, done.stderr), (code, f"stof: {message}\n"))

    def test_data_without_a_text(self):
        with tempfile.TemporaryDirectory() as folder:
            for empty, other in (("sentences.txt", "queries.txt"), ("queries.txt", "sentences.txt")):
                Path(folder, empty).write_text("")
                Path(folder, other).write_text("one\n")
                done = demo(data=folder)
                self.assertEqual((done.returncode, done.stdout, done.stderr),
                                 (2, "", f"stof: {folder}/{empty} is empty; accepted: one text a line\n"))  # fmt: skip

    def test_missing_data(self):
        done = demo(data="nowhere")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(
            done.stderr, "stof: there is no nowhere/sentences.txt; --data names the folder with sentences.txt and queries.txt\n"
        )


if __name__ == "__main__":
    unittest.main()
