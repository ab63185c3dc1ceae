#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""stof generate from the outside: texts as transformers continues them, options, messages, exit codes.

usage: generate_test.py STOF FAMILIES     FAMILIES: small checkpoints, tests/data/families
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import npy

FAMILIES = os.path.abspath(sys.argv.pop(2))
STOF = os.path.abspath(sys.argv.pop(1))
DECODERS = ("gpt2", "llama", "llama_with_biases", "mistral", "qwen2", "qwen3", "phi3", "phi4", "gemma2", "gemma3")


def stof(*arguments, stdin=None):
    return subprocess.run([STOF, "generate", "--device", "cpu", *map(str, arguments)], input=stdin, capture_output=True,
                          text=True, encoding="utf-8", timeout=120, check=False)  # fmt: skip


def model(family):
    return os.path.join(FAMILIES, family)


def texts_of(family):
    lengths = npy.read(os.path.join(model(family), "lengths.npy"))[2]
    with open(os.path.join(FAMILIES, "texts.txt"), encoding="utf-8", newline="") as file:
        lines = file.read().split("\n")
    return [line for line, length in zip(lines, lengths) if length > 0]


class Generate(unittest.TestCase):
    def expect_error(self, done, code, message):
        self.assertEqual((done.returncode, done.stderr), (code, f"stof: {message}\n"))

    def test_goes_on_as_transformers_does(self):
        for family in DECODERS:
            with self.subTest(family=family):
                (_, tokens), _, want = npy.read(os.path.join(model(family), "generated.npy"))
                done = stof("--model", model(family), "--input", "-", "--tokens", tokens, "--go-on", "--json", "-",
                            stdin="\n".join(texts_of(family)) + "\n")  # fmt: skip
                self.assertEqual(done.returncode, 0, done.stderr)
                found = json.loads(done.stdout)
                self.assertEqual(sum((text["ids"] for text in found["texts"]), []), list(want))
                self.assertEqual(found["tokens"], len(want))
                self.assertGreater(found["seconds"], found["first_seconds"])

    def test_a_text_is_printed_as_it_grows_and_several_have_a_line_each(self):
        arguments = ("--model", model("llama"), "--tokens", 20, "--go-on")
        one = stof(*arguments, "--text", "The bread rises")
        self.assertEqual(one.returncode, 0, one.stderr)
        self.assertIn("20 tokens in ", one.stderr)
        several = stof(*arguments, "--input", "-", stdin="The bread rises\nx\nThe bread rises\n")
        lines = several.stdout.split("\n")
        self.assertEqual(len(lines), 4)
        self.assertEqual(lines[0], lines[2])
        self.assertEqual(lines[0], one.stdout[:-1].replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r"))

    def test_statistics_come_behind_the_texts(self):
        for given, stdin in ((("--text", "masks"), None), (("--input", "-"), "masks\nx\n")):
            done = subprocess.run([STOF, "generate", "--device", "cpu", "--model", model("llama"), "--tokens", "3", *given], input=stdin,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=True)  # fmt: skip
            self.assertRegex(done.stdout, r"(?s)^(?!\d tokens).*\n\d tokens in .* s\n$")

    def test_prompts_of_several_lines(self):
        arguments = ("--model", model("llama"), "--tokens", 8, "--go-on")
        prompts = ["a\nb", "a\\nb", "a\\\nb\r", "c"]
        want = [json.loads(stof(*arguments, "--text", prompt, "--json", "-").stdout)["texts"][0]["ids"] for prompt in prompts]
        self.assertNotEqual(want[0], want[1])
        lines = "a\\nb\na\\\\nb\na\\\\\\nb\\r\nc\n"
        found = json.loads(stof(*arguments, "--input", "-", "--escaped", "--json", "-", stdin=lines).stdout)
        self.assertEqual([one["ids"] for one in found["texts"]], want)
        as_it_is = json.loads(stof(*arguments, "--input", "-", "--json", "-", stdin="a\\nb\n").stdout)
        self.assertEqual(as_it_is["texts"][0]["ids"], want[1])
        for line, place in (("a\\t", 1), ("ab\\", 2), ("\\\\\\N", 2)):
            self.expect_error(stof(*arguments, "--input", "-", "--escaped", stdin=f"fine\n{line}\n"), 2,
                              f"stdin: line 2: the backslash at byte {place} is none of '\\n', '\\r', '\\\\', which --escaped accepts")
        self.assertIn("--escaped requires --input", stof(*arguments, "--text", "a", "--escaped").stderr)

    def test_the_space_between_text_and_continuation_is_there(self):
        # Of a tokenizer that drops the space in front of a whole text.
        arguments = ("--model", model("mistral"), "--tokens", 1, "--go-on", "--json", "-")
        pieces = set()
        for seed in range(40):
            done = stof(*arguments, "--text", "The bread rises", "--temperature", 3, "--seed", seed)
            pieces.add(json.loads(done.stdout)["texts"][0]["text"])
        self.assertTrue(any(piece.startswith(" ") for piece in pieces), pieces)

    def test_chance_is_by_seed(self):
        arguments = ("--model", model("qwen3"), "--text", "masks", "--tokens", 12, "--temperature", 1)
        first, again, other = (stof(*arguments, "--seed", seed).stdout for seed in (1, 1, 2))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)
        greedy = stof("--model", model("qwen3"), "--text", "masks", "--tokens", 12).stdout
        self.assertEqual(stof(*arguments, "--top-k", 1).stdout, greedy)
        self.assertEqual(stof(*arguments, "--top-p", 1e-6).stdout, greedy)

    def test_passes_say_the_same_and_have_times_of_their_own(self):
        arguments = ("--model", model("llama"), "--tokens", 6, "--temperature", 1, "--text", "masks")
        once, often = stof(*arguments), stof(*arguments, "--passes", 3)
        self.assertEqual((often.returncode, often.stdout), (0, once.stdout))
        self.assertRegex(often.stderr, r"\n?6 tokens in \d+\.\d\d s on .*, the first after \d+\.\d\d s\n$")
        found = json.loads(stof(*arguments, "--passes", 3, "--json", "-").stdout)
        self.assertEqual([one["tokens"] for one in found["passes"]], [6, 6, 6])
        self.assertEqual({key: found[key] for key in ("seconds", "first_seconds", "tokens")}, found["passes"][2])
        for one in found["passes"]:
            self.assertGreater(one["seconds"], one["first_seconds"])
        self.assertEqual(len(found["texts"]), 1)
        self.assertEqual(len(json.loads(stof(*arguments, "--json", "-").stdout)["passes"]), 1)

    def test_a_mask_changes_what_is_said(self):
        arguments = ("--model", model("llama"), "--text", "The bread rises slowly in a cold kitchen", "--tokens", 10)
        self.assertNotEqual(stof(*arguments).stdout, stof(*arguments, "--mask", "window(2)").stdout)

    def test_a_closed_output_ends_it(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([STOF, "generate", "--device", "cpu", "--model", model("llama"), "--text", "a"],
                                  stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)  # fmt: skip
        self.assertEqual(done.returncode, 2)
        self.assertIn("cannot write to stdout: No space left on device", done.stderr)

    def test_ends_are_those_of_the_checkpoint(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in os.listdir(model("llama")):
                os.symlink(os.path.join(model("llama"), name), os.path.join(folder, name))
            arguments = ("--model", folder, "--text", "The bread rises", "--tokens", 8, "--json", "-")
            ids = json.loads(stof(*arguments).stdout)["texts"][0]["ids"]
            self.assertEqual(len(ids), 8)
            for ends in (ids[3], [799, ids[3]]):
                with open(os.path.join(folder, "generation_config.json"), "w", encoding="utf-8") as file:
                    json.dump({"eos_token_id": ends}, file)
                self.assertEqual(json.loads(stof(*arguments).stdout)["texts"][0]["ids"], ids[:ids.index(ids[3]) + 1])
                self.assertEqual(json.loads(stof(*arguments, "--go-on").stdout)["texts"][0]["ids"], ids)
            with open(os.path.join(folder, "generation_config.json"), "w", encoding="utf-8") as file:
                json.dump({"eos_token_id": [800], "repetition_penalty": 1.1}, file)  # the vocabulary has 800 tokens
            done = stof(*arguments)
            self.assertEqual(json.loads(done.stdout)["texts"][0]["ids"], ids)
            self.assertIn(f"stof: {folder}/generation_config.json: 'repetition_penalty' is 1.1; not applied\n", done.stderr)
            with open(os.path.join(folder, "generation_config.json"), "w", encoding="utf-8") as file:
                json.dump({"eos_token_id": "</s>"}, file)
            self.expect_error(stof(*arguments), 2,
                              f"{folder}/generation_config.json: 'eos_token_id' is \"</s>\"; accepted: null, an id or several")

    def test_errors(self):
        llama = ("--model", model("llama"), "--text", "a")
        for arguments, code, message in (
            (("--model", model("roberta"), "--text", "a"), 3,
             "no logits of RobertaForMaskedLM; accepted: GPT-2, Llama, Mistral, Qwen2, Qwen3, Phi-3, Gemma"),
            ((*llama, "--tokens", 0), 2, "tokens = 0; accepted: 1 or more"),
            ((*llama, "--seed", -1), 2, "--seed -1; accepted: 0 or more"),
            ((*llama, "--batch", 0), 2, "batch = 0; accepted: 1 or more"),
            ((*llama, "--passes", 0), 2, "--passes 0; accepted: 1 or more"),
            ((*llama, "--temperature", -1), 2, "temperature = -1; accepted: 0 or more"),
            ((*llama, "--top-p", 0), 2, "top_p = 0; accepted: above 0, up to 1"),
            ((*llama, "--top-k", -3), 2, "top_k = -3; accepted: 0 (all) or more"),
            ((*llama, "--mask", "bigbird(4,1,2,1,9)"), 3,
             "the mask bigbird(4,1,2,1,9) & causal is another one for each length, and keys that are kept are of the "
             "lengths before; accepted for going on: masks that do not depend on length"),
            (("--model", model("llama")), 2, "--text or --input is required; --help lists what is accepted"),
        ):  # fmt: skip
            with self.subTest(arguments=arguments):
                self.expect_error(stof(*arguments), code, message)
        long = stof("--model", model("llama"), "--text", "bread " * 300)
        self.assertEqual(long.returncode, 2)
        self.assertRegex(long.stderr, r"text 1 has \d+ tokens; accepted without truncation: at most 199")
        cut = stof("--model", model("llama"), "--text", "bread " * 300, "--truncate", "--go-on", "--json", "-")
        self.assertEqual(len(json.loads(cut.stdout)["texts"][0]["ids"]), 1)


if __name__ == "__main__":
    unittest.main()
