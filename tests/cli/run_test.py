#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""stof run from the outside, with the real checkpoint: every option and what it writes.

usage: run_test.py STOF MODEL
"""

import json
import math
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import npy

MODEL = Path(sys.argv.pop())
STOF = sys.argv.pop()
ROOT = Path(__file__).resolve().parents[2]
TEXTS = ["The cat sat on the mat.", "", "Rain is expected in the north, with strong wind later.", "Bread", "a b c d e"]
HIDDEN = 384


def rows_of(values):
    return [values[i : i + HIDDEN] for i in range(0, len(values), HIDDEN)]


def normalised(row):
    length = math.sqrt(sum(x * x for x in row))
    return [x / length for x in row]


class Run(unittest.TestCase):
    def setUp(self):
        self.assertTrue(Path(MODEL, "model.safetensors").exists(), f"no checkpoint in {MODEL}; `make model` fetches it")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.input = self.folder / "texts.txt"
        self.input.write_text("".join(text + "\n" for text in TEXTS))

    def run_stof(self, *arguments):
        """Without the lines that a slow machine has besides (loading_test.py)."""
        done = subprocess.run([STOF, "run", "--model", MODEL, *map(str, arguments)], capture_output=True, text=True,
                              timeout=300, check=False)  # fmt: skip
        done.stderr = re.sub(r"^loading the model  \d+ s\n", "", done.stderr, flags=re.MULTILINE)
        return done

    def embed(self, *arguments):
        """Values of --out, after a run that must succeed and print no data."""
        out = self.folder / "out.npy"
        done = self.run_stof("--input", self.input, "--out", out, *arguments)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        shape, descr, values = npy.read(out)
        self.assertEqual((descr, shape[1]), ("<f4", HIDDEN))
        return rows_of(values)

    def expect_close(self, got, want, bound):
        self.assertEqual(len(got), len(want))
        worst = max(abs(a - b) for row, other in zip(got, want) for a, b in zip(row, other))
        self.assertLessEqual(worst, bound)

    def expect_error(self, done, code, message):
        self.assertEqual((done.returncode, done.stdout), (code, ""))
        self.assertEqual(done.stderr.splitlines()[-message.count("\n") - 1 :], f"stof: {message}".split("\n"))

    def test_what_it_took(self):
        took = self.folder / "took.json"
        self.embed("--json", took)
        found = json.loads(took.read_text())
        self.assertEqual((found["texts"], found["calls"], found["measured"], found["compiled"]), (len(TEXTS), 1, 0, 0))
        self.assertGreaterEqual(found["first_seconds"], found["seconds"])
        done = self.run_stof("--text", "a", "--json", "-")  # in place of the vector
        self.assertEqual(json.loads(done.stdout)["texts"], 1)

    def test_messages_that_nobody_can_read_cost_no_work(self):
        want = self.embed()
        for where in ("&-", "/dev/full"):
            out = self.folder / "unheard.npy"
            done = subprocess.run(f"'{STOF}' run --model '{MODEL}' --input '{self.input}' --out '{out}' 2>{where}",
                                  shell=True, timeout=300, check=False)  # fmt: skip
            self.assertEqual(done.returncode, 0)
            self.assertEqual(rows_of(npy.read(out)[2]), want)
            out.unlink()

    def test_one_text_is_the_line_of_a_file(self):
        done = self.run_stof("--text", TEXTS[2])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"^1 text in [0-9.]+ s on ")
        rows = [[float(x) for x in line.split(" ")] for line in done.stdout.splitlines()]
        self.expect_close(rows, [self.embed()[2]], 1e-6)

    def test_stdout_has_a_line_per_text_and_nothing_else(self):
        done = self.run_stof("--input", self.input)
        rows = [[float(x) for x in line.split(" ")] for line in done.stdout.splitlines()]
        self.assertEqual(rows, [list(map(float, row)) for row in rows])
        self.expect_close(rows, self.embed(), 1e-6)
        self.assertRegex(done.stderr, r"^5 texts in [0-9.]+ s on .+\n"
                                      r"the first vectors after [0-9.]+ s, loading included\n$")  # fmt: skip

    def test_vectors_have_length_one(self):
        for row in self.embed():
            self.assertAlmostEqual(sum(x * x for x in row), 1, places=5)

    def test_pooling_follows_from_the_tokens(self):
        lengths_file = self.folder / "lengths.npy"
        tokens = self.embed("--pooling", "none", "--lengths-out", lengths_file)
        shape, descr, lengths = npy.read(lengths_file)
        self.assertEqual((shape, descr), ((len(TEXTS),), "<i4"))
        self.assertEqual(len(tokens), sum(lengths))
        self.assertEqual((lengths[1], lengths[3]), (2, 3))  # [CLS] [SEP]; [CLS] bread [SEP]
        texts, first = [], 0
        for length in lengths:
            texts.append(list(zip(*tokens[first : first + length])))  # by column
            first += length
        pooled = {"cls": lambda column: column[0], "mean": lambda column: sum(column) / len(column), "max": max}
        for name, pool in pooled.items():
            want = [normalised([pool(column) for column in text]) for text in texts]
            self.expect_close(self.embed("--pooling", name), want, 1e-6)
        self.assertEqual(self.embed("--pooling", "auto"), self.embed("--pooling", "mean"))

    def test_the_batch_and_threads_do_not_matter(self):
        want = self.embed()
        for option in (["--batch", 1], ["--batch", 2], ["--batch", 1000], ["--threads", 1], ["--threads", 3]):
            self.expect_close(self.embed(*option), want, 1e-6)

    def test_masks_restrict_attention(self):
        want = self.embed()
        self.expect_close(self.embed("--mask", "all"), want, 1e-6)
        self.expect_close(self.embed("--mask", "window(30)"), want, 1e-6)
        alone = self.embed("--mask", "window(0)", "--pooling", "cls")
        self.expect_close(alone, [alone[0]] * len(TEXTS), 1e-6)  # [CLS] sees itself only
        self.assertGreater(max(abs(a - b) for a, b in zip(self.embed("--mask", "window(1)")[0], want[0])), 0.01)

    def test_bf16_is_near_and_is_used(self):
        for got, want in zip(self.embed("--dtype", "bf16"), self.embed()):
            cosine = sum(a * b for a, b in zip(got, want))
            self.assertGreaterEqual(cosine, 0.9998)
            self.assertNotEqual(got, want)

    def test_long_texts_are_cut_and_counted(self):
        long = "hello " * 400
        self.input.write_text(f"{long}\nshort\n{long}and more\n")
        out = self.folder / "out.npy"
        done = self.run_stof("--input", self.input, "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2 of 3 texts cut to 256 tokens\n", done.stderr)
        rows = rows_of(npy.read(out)[2])
        self.expect_close([rows[0]], [rows[2]], 1e-6)
        self.expect_error(self.run_stof("--input", self.input, "--no-truncate"), 2,
                          f"{self.input}: line 1 has 402 tokens; accepted without truncation: at most 256")  # fmt: skip
        self.input.write_text(f"short\n{long}\n")
        self.expect_error(self.run_stof("--input", self.input, "--no-truncate"), 2,
                          f"{self.input}: line 2 has 402 tokens; accepted without truncation: at most 256")  # fmt: skip
        self.expect_error(self.run_stof("--text", long, "--no-truncate"), 2,
                          "text 1 has 402 tokens; accepted without truncation: at most 256")  # fmt: skip
        fits = self.run_stof("--text", "hello " * 254, "--no-truncate", "--out", out)
        self.assertEqual(fits.returncode, 0, fits.stderr)
        self.assertNotIn("cut", fits.stderr)

    def test_a_file_without_texts(self):
        self.input.write_text("")
        self.assertEqual(self.embed(), [])
        self.assertIn("0 texts in ", self.run_stof("--input", self.input).stderr)

    def test_line_ends_do_not_matter(self):
        want = self.embed()
        for content in ("\n".join(TEXTS), "\r\n".join(TEXTS)):
            self.input.write_bytes(content.encode())
            self.assertEqual(self.embed(), want)

    def test_logits_of_a_language_model(self):
        folder, out = ROOT / "tests" / "data" / "families" / "gpt2", self.folder / "out.npy"
        lines = (ROOT / "tests/data/families/texts.txt").read_text(encoding="utf-8").splitlines()
        self.input.write_text("".join(line + "\n" for line in lines if line), encoding="utf-8")

        def run(*arguments):
            return subprocess.run([STOF, "run", "--model", folder, *map(str, arguments)], capture_output=True, text=True,
                                  timeout=300, check=False)  # fmt: skip

        want = npy.read(folder / "logits.npy")
        for pooling in ("auto", "last"):
            done = run("--input", self.input, "--logits", "--pooling", pooling, "--out", out)
            self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
            shape, descr, values = npy.read(out)
            self.assertEqual((shape, descr), (want[0], "<f4"))
            self.assertLessEqual(max(abs(a - b) for a, b in zip(values, want[2])), 4e-5)
        done = run("--input", self.input, "--logits", "--pooling", "none", "--out", out)
        self.assertEqual((done.returncode, npy.read(out)[0]), (0, (546, 800)), done.stderr)
        self.expect_error(run("--text", "a", "--logits", "--pooling", "mean"), 2,
                          "logits are not pooled; accepted: those of the last token (last), of every one (none), or a session without logits, for vectors")  # fmt: skip
        self.expect_error(run("--text", ""), 2, "text 1 has no tokens; accepted: 1 or more")
        self.input.write_text("a\n\nb\n")
        self.expect_error(run("--input", self.input), 2, f"{self.input}: line 2 has no tokens; accepted: 1 or more")
        self.expect_error(self.run_stof("--text", "a", "--logits"), 3, "no logits of BertModel; accepted: GPT-2, Llama, Mistral, Qwen2, Qwen3, Phi-3, Gemma")

    def test_global_tokens_of_longformer(self):
        folder, out = ROOT / "tests/data/families/longformer", self.folder / "out.npy"
        arguments = ("--model", folder, "--global-tokens", 3)

        def run(*more):
            return subprocess.run([STOF, *map(str, more)], capture_output=True, text=True, timeout=300, check=False)

        done = run("run", *arguments, "--device", "cpu", "--input", ROOT / "tests/data/families/texts.txt", "--pooling", "none", "--out", out)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        shape, _, values = npy.read(out)
        want = npy.read(folder / "global_tokens.npy")
        self.assertEqual(shape, want[0])
        self.assertLessEqual(max(abs(a - b) for a, b in zip(values, want[2])), 4e-5)
        self.assertIn("attention.self_global", run("graph", *arguments).stdout)
        self.expect_error(self.run_stof("--text", "a", "--global-tokens", 1), 3,
                          "global tokens of BertModel; accepted: of Longformer, whose checkpoints have weights for them")  # fmt: skip

    def test_an_empty_text(self):
        done = self.run_stof("--text", "")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.expect_close([[float(x) for x in done.stdout.split(" ")]], [self.embed()[1]], 1e-6)

    def test_a_result_above_4_gib_needs_force(self):
        out = self.folder / "out.npy"
        self.input.write_text("\n" * 2_800_000)
        self.expect_error(self.run_stof("--input", self.input, "--out", out), 2,
                          f"'{out}' would take 4.0 GiB; above 4 GiB needs --force")  # fmt: skip
        self.input.write_text(("a " * 300 + "\n") * 11_000)
        self.expect_error(self.run_stof("--input", self.input, "--pooling", "none", "--out", out), 2,
                          f"'{out}' would take 4.0 GiB; above 4 GiB needs --force")  # fmt: skip
        self.assertFalse(out.exists())

    def test_options_that_are_wrong(self):
        for arguments, code, message in (
            (["--batch", 0], 2, "--batch 0; accepted: 1 or more"),
            (["--threads", -1], 2, "--threads -1; accepted: 0 (all) to 1024"),
            (["--threads", 100000], 2, "--threads 100000; accepted: 0 (all) to 1024"),
            (["--pooling", "sum"], 2, "--pooling sum; accepted: auto, cls, mean, max, last, none"),
            (["--dtype", "f8"], 2, "--dtype f8; accepted: f32, f16, bf16"),
            (["--device", "tpu"], 2, "unknown device 'tpu'; accepted: auto, cpu, cuda, cuda:N; to plan for: cuda:h200, cuda:h100, cuda:a100"),
            (["--dtype", "f16"], 3, "no matmul in f16 on the CPU; accepted: f32, bf16"),
            (["--mask", "window(-1)"], 2,
             "mask: window: w = -1; accepted: 0 to 1152921504606846976\n  window(-1)\n         ^"),
            (["--mask", "natten(4,4,3,3)"], 2, "natten: 512 queries and 512 keys; accepted: 4 x 4 = 16 of both"),
            (["--mask", "batch(0: causal, *: all)"], 2,
             "mask batch(0: causal, *: all): it depends on the batch index; accepted: masks that are the same for "
             "every text, since texts are regrouped"),
            (["--out", "-"], 2, "--out -; accepted: the name of a file"),
            (["--out", ""], 2, "--out: the value is empty; --help lists what is accepted"),
            (["--mask", ""], 2, "--mask: the value is empty; --help lists what is accepted"),
            (["--out", self.folder / "e", "--lengths-out", f"{self.folder}/../{self.folder.name}/e"], 2,
             f"--out and --lengths-out both write '{self.folder}/../{self.folder.name}/e'"),
            (["--input", "x"], 2, "--text excludes --input; --help lists what is accepted"),
        ):  # fmt: skip
            with self.subTest(arguments):
                self.expect_error(self.run_stof("--text", "hello", *arguments), code, message)
        self.expect_error(self.run_stof(), 2, "--text or --input is required; --help lists what is accepted")

    def test_texts_that_are_wrong(self):
        missing = self.folder / "missing.txt"
        self.expect_error(self.run_stof("--input", missing), 2, f"cannot read {missing}: No such file or directory")
        self.input.write_bytes(b"hello\nabc\xff\n")
        self.expect_error(self.run_stof("--input", self.input), 2,
                          f"{self.input}: line 2 is not UTF-8 at its byte 3: 0xFF")  # fmt: skip

    def test_a_folder_that_is_missing_for_the_result(self):
        done = self.run_stof("--text", "hello", "--out", "/no/such/folder/out.npy")
        self.assertNotIn("embedding", done.stderr)  # it is found out before the work
        self.expect_error(done, 2, "cannot write '/no/such/folder/out.npy': No such file or directory")


if __name__ == "__main__":
    unittest.main()
