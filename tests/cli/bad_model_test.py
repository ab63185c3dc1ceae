#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Model folders that are not right, given to stof run and stof graph: each is refused with what was found and what is
accepted.

usage: bad_model_test.py STOF
"""

import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import small_model

STOF = sys.argv.pop(1)
QUERY = "encoder.layer.0.attention.self.query.weight"


class BadModel(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.model = Path(folder.name) / "model"

    def stof(self, command, *arguments):
        return subprocess.run([STOF, command, "--model", self.model, *arguments], capture_output=True, text=True,
                              timeout=60, check=False)  # fmt: skip

    def run_text(self, text="hello world"):
        return self.stof("run", "--text", text)

    def expect_refused(self, message, code=2):
        for done in (self.run_text(), self.stof("graph")):
            self.assertEqual((done.returncode, done.stdout), (code, ""))
            self.assertEqual(done.stderr, f"stof: {message}\n")

    def test_the_good_one_runs(self):
        small_model.write(self.model)
        done = self.run_text()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(done.stdout.split()), 8)
        self.assertEqual(self.stof("graph").returncode, 0)

    def test_no_folder(self):
        self.expect_refused(f"{self.model}: no such folder; a model is a folder with config.json, model.safetensors, "
                            "and tokenizer.json or vocab.txt")  # fmt: skip

    def test_a_file_in_place_of_the_folder(self):
        self.model.write_text("x")
        self.expect_refused(f"{self.model}: not a folder; a model is a folder with config.json, model.safetensors, "
                            "and tokenizer.json or vocab.txt")  # fmt: skip

    def test_no_config(self):
        small_model.write(self.model)
        (self.model / "config.json").unlink()
        self.expect_refused(f"{self.model}: no config.json; a model is a folder with config.json, model.safetensors, "
                            "and tokenizer.json or vocab.txt")  # fmt: skip

    def test_no_weights(self):
        small_model.write(self.model)
        (self.model / "model.safetensors").unlink()
        self.expect_refused(f"{self.model}: neither model.safetensors nor model.safetensors.index.json; weights in "
                            "other files (pytorch_model.bin) are not read")  # fmt: skip

    def test_no_tokenizer(self):
        small_model.write(self.model)
        (self.model / "vocab.txt").unlink()
        done = self.run_text()
        self.assertEqual((done.returncode, done.stderr), (2, f"stof: {self.model}: neither tokenizer.json nor vocab.txt\n"))
        self.assertEqual(self.stof("graph").returncode, 0)

    def test_weights_that_are_cut_short(self):
        file = small_model.write(self.model) / "model.safetensors"
        whole = file.read_bytes()
        header = 8 + int.from_bytes(whole[:8], "little")
        for size, message in (
            (0, "0 bytes; a safetensors file begins with 8 bytes of header length"),
            (4, "4 bytes; a safetensors file begins with 8 bytes of header length"),
            (header - 1, f"header of {header - 8} bytes in a file of {header - 1}; is it truncated?"),
            (len(whole) - 1, f"tensor 'encoder.layer.0.output.LayerNorm.bias' ends at byte {len(whole) - header} of "
                             f"{len(whole) - header - 1} bytes of data; is the file truncated?"),
        ):
            with self.subTest(size):
                file.write_bytes(whole[:size])
                self.expect_refused(f"{file}: {message}")

    def test_tensors_that_are_not_right(self):
        file = self.model / "model.safetensors"
        for change, message in (
            (None, f"{file}: tensor '{QUERY}' of shape [8, 8] is missing"),
            (("F32", [8, 7]), f"{file}: tensor '{QUERY}' has shape [8, 7]; config.json asks for [8, 8]"),
            (("I64", [8, 8]), f"{file}: tensor '{QUERY}' is i64; accepted for a weight: f32, f16, bf16"),
        ):
            with self.subTest(change=change):
                weights = small_model.tensors() | {QUERY: change}
                small_model.write(self.model, weights={k: v for k, v in weights.items() if v})
                self.expect_refused(message)

    def test_a_token_outside_the_vocabulary_of_the_model(self):
        small_model.write(self.model, config={"vocab_size": 6}, weights=small_model.tensors(vocabulary=6))
        texts = self.model.parent / "texts.txt"
        texts.write_text("hello hello\nhello world\nhello hello hello\n")
        accepted = "accepted: 0 to 5, by the model's vocab_size"
        for option, value, name in (("--text", "hello world", "text 1"), ("--input", texts, f"{texts}: line 2")):
            done = self.stof("run", option, value, "--batch", "1")
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(done.stderr, f"stof: {name}: its token 3 has id 6; {accepted}\n")

    def test_names_out_of_files_are_shown_not_obeyed(self):
        name = "\x1b[31m\x00\x9b"
        small_model.write(self.model, weights=small_model.tensors() | {"a" + name: ("F32", [2])})
        file = self.model / "model.safetensors"
        whole = file.read_bytes()
        file.write_bytes(whole[:-1])
        data = len(whole) - 8 - int.from_bytes(whole[:8], "little")
        self.expect_refused(f"{file}: tensor 'a\\x1B[31m\\x00\\xC2\\x9B' ends at byte {data} of {data - 1} bytes of data; "
                            "is the file truncated?")  # fmt: skip

    def test_vectors_that_are_not_finite_are_counted(self):
        small_model.write(self.model)
        file = self.model / "model.safetensors"
        whole = bytearray(file.read_bytes())
        hello = 8 + int.from_bytes(whole[:8], "little") + 4 * 8 * small_model.VOCABULARY.index("hello")
        whole[hello : hello + 4] = struct.pack("<f", float("nan"))
        file.write_bytes(whole)
        for text, pooling, said in (("a world", "cls", ""), ("hello world", "cls", "\n1 of 1 vector not finite: "),
                                    ("hello world", "none", "\n4 of 4 vectors not finite: ")):  # fmt: skip
            done = self.stof("run", "--text", text, "--pooling", pooling)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(said, done.stderr)
            self.assertEqual("not finite" in done.stderr, bool(said))

    def test_a_config_that_is_not_right(self):
        for change, code, message in (
            ({"hidden_act": "mish"}, 3, "{}: 'hidden_act' is \"mish\"; accepted: gelu, gelu_new, gelu_pytorch_tanh, relu, silu, swish"),
            ({"model_type": "bart"}, 3, "{}: 'model_type' is \"bart\"; accepted: bert, roberta, xlm-roberta, distilbert, longformer, gpt2, modernbert, llama, mistral, qwen2, qwen3, "
             "phi3, gemma2, gemma3_text, eurobert, nomic_bert, mpnet, t5, mt5, umt5"),
            ({"num_attention_heads": 3}, 2, "{}: 'hidden_size' is 8; accepted: a multiple of num_attention_heads, 3"),
            ({"hidden_size": 1024}, 3, "{}: 'hidden_size' is 1024; accepted: at most 256 for each of num_attention_heads, 2"),
            ({"max_position_embeddings": 1}, 2,
             "{}: 'max_position_embeddings' is 1; accepted: an integer from 2 to 2147483647"),
            ({"num_hidden_layers": -1}, 2, "{}: 'num_hidden_layers' is -1; accepted: an integer from 0 to 2147483647"),
        ):
            with self.subTest(change=change):
                small_model.write(self.model, config=change)
                self.expect_refused(message.format(self.model / "config.json"), code)


if __name__ == "__main__":
    unittest.main()
