#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No command writes over what it was given to read.

usage: overwritten_test.py STOF
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import npy
import small_model

STOF = os.path.abspath(sys.argv.pop(1))


class Overwritten(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.model = small_model.write(self.folder / "m")
        self.texts = self.folder / "s.txt"
        self.texts.write_text("hello world\n")
        self.q = npy.write(self.folder / "q.npy", (1, 1, 2, 4), [0.5] * 8)

    def stof(self, *arguments):
        environment = os.environ | {"XDG_CACHE_HOME": str(self.folder / "cache")}
        return subprocess.run([STOF, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False,
                              env=environment, cwd=self.folder)  # fmt: skip

    def contents(self):
        return {path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}

    def test_an_input_is_no_output(self):
        attention = ("attention", "--q", self.q, "--k", self.q, "--v", self.q, "--out")
        run = ("run", "--model", "m", "--input", "s.txt")
        npy.write(self.folder / "a b.npy", (2, 2), [True] * 4, "|b1")
        os.symlink("s.txt", self.folder / "link")
        before = self.contents()
        for arguments, message in (
            ((*attention, self.q), f"--q and --out are both '{self.q}'"),
            ((*attention, "o.npy", "--lse", "./q.npy"), "--q and --lse are both './q.npy'"),
            ((*attention, "new.npy", "--lse", "./new.npy"), "--out and --lse both write './new.npy'"),
            (("mask", "causal", "--seq", "2", "--out", "new.npy", "--json", self.folder / "new.npy"),
             f"--out and --json both write '{self.folder}/new.npy'"),
            ((*run, "--out", "m/model.safetensors"), "--model and --out are both 'm/model.safetensors'"),
            ((*run, "--out", "link"), "--input and --out are both 'link'"),
            ((*run, "--json", "m/vocab.txt"), "--model and --json are both 'm/vocab.txt'"),
            (("calibrate", "--device", "cuda:h200", "--times", "s.txt", "--source", "s.txt"),
             "--times and --source are both 's.txt'"),
            (("calibrate", "--device", "cuda:h200", "--times", "s.txt", "--regret", "--only", "causal", "--json", "s.txt"),
             "--times and --json are both 's.txt'"),
            (("calibrate", "--device", "cuda:h200", "--times", "s.txt", "--json", "s.txt", "--out", "s.txt"),
             "--json and --out both write 's.txt'"),
            (("mask", "causal & bits( q.npy )", "--seq", "2", "--out", "q.npy"), "mask and --out are both 'q.npy'"),
            ((*attention, "a b.npy", "--mask", 'bits("a b.npy")'), "--mask and --out are both 'a b.npy'"),
            (("tune", "--model", "m", "--json", "m/config.json"), "--model and --json are both 'm/config.json'"),
            (("bench", "model", "--input", "s.txt", "--json", "s.txt"), "--input and --json are both 's.txt'"),
            (("plan", "bits(q.npy)", "--shape", "1,1,2,8", "--json", "q.npy"), "mask and --json are both 'q.npy'"),
            (("tune", "--model", "m", "--mask", "bits(q.npy)", "--json", "q.npy"),
             "--mask and --json are both 'q.npy'"),
            (("bench", "attention", "--mask", "all", "--mask", "causal & bits(q.npy)", "--json", "./q.npy"),
             "--mask and --json are both './q.npy'"),
            (("bench", "model", "--mask", "bits(q.npy)", "--json", "q.npy"), "--mask and --json are both 'q.npy'"),
            (("bench", "model", "--encoder", "m", "--hidden-out", "m/config.json"),
             "--encoder and --hidden-out are both 'm/config.json'"),
        ):  # fmt: skip
            with self.subTest(arguments):
                done = self.stof(*arguments)
                self.assertEqual((done.returncode, done.stderr), (2, f"stof: {message}\n"))
                self.assertEqual(self.contents(), before)

    def test_no_file_of_a_model_is_an_output(self):
        for module in ("1_Pooling", "2_Dense"):
            (self.model / module).mkdir()
        for name in ("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json", "tokenizer.json",
                     "added_tokens.json", "special_tokens_map.json", "sentence_roberta_config.json",
                     "model.safetensors.index.json", "shard.safetensors", "1_Pooling/config.json", "2_Dense/config.json",
                     "2_Dense/model.safetensors", "2_Dense/model.safetensors.index.json"):  # fmt: skip
            (self.model / name).write_text("{}")
        before = self.contents()
        for file in sorted(path for path in self.model.rglob("*") if path.is_file()):
            with self.subTest(file.name):
                done = self.stof("run", "--model", "m", "--text", "a", "--json", file)
                self.assertEqual((done.returncode, done.stderr), (2, f"stof: --model and --json are both '{file}'\n"))
                self.assertEqual(self.contents(), before)

    def test_a_result_beside_a_model_may_be_written_again(self):
        for _ in range(2):
            done = self.stof("run", "--model", "m", "--input", "s.txt", "--out", "m/e.npy", "--json", "m/took.json")
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_times_may_be_judged_in_their_own_file(self):
        shape = ("--shape", "1,2,512,64", "--dtype", "f16", "--device", "cuda:h200", "--json", "-")
        plans = [{**{key: plan[key] for key in ("kernel", "instance", "splits", "residues")}, "us": plan["predicted_us"]}
                 for plan in json.loads(self.stof("plan", "causal", *shape).stdout)["considered"]]  # fmt: skip
        row = {"id": "causal", "mask": "causal", "shape": [1, 2, 2, 512, 512, 64], "dtype": "f16", "plans": plans}
        times = self.folder / "times.json"
        times.write_text(json.dumps({"device": "NVIDIA H200 (described)", "day": "2026-01-02", "rows": [row]}))
        done = self.stof("calibrate", "--device", "cuda:h200", "--regret", "--times", times, "--json", "times.json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(len(json.loads(times.read_text())["regrets"]), 1)


if __name__ == "__main__":
    unittest.main()
