#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""stof bench from the outside: rows, keys, resuming, errors.

usage: bench_test.py STOF
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
FAMILIES = Path(__file__).resolve().parents[1] / "data/families"
GPT2 = str(FAMILIES / "gpt2")
SHORT = ("--device", "cpu", "--seconds", "0.001")


def stof(*arguments, environment=None):
    return subprocess.run([STOF, "bench", *arguments], capture_output=True, text=True, timeout=120, check=False, env=environment)

DESCRIBED = "NVIDIA H200 (described) is a description to plan with; accepted for running: cuda, cuda:N"

class Bench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def results(self, *arguments):
        done = stof(*arguments, *SHORT, "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_attention_measures_what_it_is_asked(self):
        found = self.results("attention", "--shape", "2,4,96,32", "--mask", "causal", "--mask", "window(8)",
                             "--dtype", "f32", "--dtype", "bf16", "--kv-heads", "2")  # fmt: skip
        self.assertEqual([row["id"] for row in found["rows"]],
                         [f"(2,4,96,32) kv_heads 2 {dtype} {mask}" for dtype in ("f32", "bf16")
                          for mask in ("causal", "window(8)")])  # fmt: skip
        for key in ("commit", "day", "device", "threads", "processor", "protocol"):
            self.assertIn(key, found)
        for key in ("matmul_f32_gflops", "copy_gb_s", "clock_ghz"):
            self.assertGreater(found["roofline"][key], 0)
        for row in found["rows"]:
            self.assertGreater(row["hot"]["median_us"], 0)
            self.assertGreaterEqual(row["hot"]["median_us"], row["hot"]["best_us"])
            self.assertIsNone(row["cold"])
            pairs = 2 * 4 * 96 * 96 * row["density"]
            self.assertAlmostEqual(row["useful_gflops"] * row["hot"]["median_us"], 4e-3 * 32 * pairs, delta=1)
            bound = 1e-5 if row["dtype"] == "f32" else 1e-2
            self.assertTrue(0 < row["frobenius"] < bound and row["frobenius"] <= row["worst_row"] < 10 * bound)
        self.assertEqual(found["rows"][0]["density"], 97 / 192)

    def test_attention_has_default_masks_for_a_shape(self):
        masks = [row["mask"] for row in self.results("attention", "--shape", "1,1,200,16", "--dtype", "f16")["rows"]]
        self.assertEqual(masks[:5], ["all", "causal", "window(64)", "longformer(64,16)", "bigbird(64,3,2,3,1)"])
        self.assertRegex(masks[5], r"^documents\(\[0,\d+(,\d+)*\]\) & causal$")

    def test_resuming_measures_what_is_missing(self):
        file = self.folder / "results.json"
        arguments = ("attention", "--shape", "1,1,64,16", "--dtype", "f32", *SHORT, "--json", str(file))
        self.assertEqual(stof(*arguments, "--mask", "causal").returncode, 0)
        first = json.loads(file.read_text())["rows"]
        done = stof(*arguments, "--mask", "causal", "--mask", "all", "--resume")
        self.assertEqual(done.returncode, 0, done.stderr)
        both = json.loads(file.read_text())["rows"]
        self.assertEqual([row["mask"] for row in both], ["causal", "all"])
        self.assertEqual(both[0], first[0])
        self.assertIn("(1,1,64,16) f32 causal", done.stdout)

        file.write_text(json.dumps(json.loads(file.read_text()) | {"commit": "another"}))
        done = stof(*arguments, "--resume")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r'^stof: .*results.json\' was measured with commit "another"; this run has ".*"\n$')
        file.write_text("[]")
        done = stof(*arguments, "--resume")
        self.assertEqual((done.returncode, done.stderr),
                         (2, f"stof: '{file}' is no file of results: no object with rows\n"))  # fmt: skip

    def test_a_row_that_is_not_a_result_is_refused(self):
        model = small_model.write(self.folder / "model")
        sentences = self.folder / "sentences.txt"
        sentences.write_text("hello world\n")
        file = self.folder / "results.json"
        commands = {
            "model": ("--part", "sentences", "--model", str(model), "--input", str(sentences), "--batch", "1", "--dtype", "f32"),
            "attention": ("--shape", "1,1,64,16", "--dtype", "f32", "--mask", "causal"),
        }  # fmt: skip
        for command, row, key, value, message in (
            ("model", "sentences f32 batch 1", "sentences_per_s", "x", "type must be number, but is string"),
            ("model", "first embedding f32", "megabytes", None, "key 'megabytes' not found"),
            ("attention", "(1,1,64,16) f32 causal", "floor", 3, "cannot use at() with number"),
        ):  # fmt: skip
            with self.subTest(command=command, key=key):
                arguments = (command, *commands[command], *SHORT, "--json", str(file))
                self.assertEqual(stof(*arguments).returncode, 0)
                results = json.loads(file.read_text())
                damaged = next(one for one in results["rows"] if one["id"] == row)
                damaged |= {key: value}
                if value is None:
                    del damaged[key]
                file.write_text(json.dumps(results))
                done = stof(*arguments, "--resume")
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertEqual(done.stderr, f"stof: '{file}': row '{row}' is not as `stof bench {command}` writes it: {message}\n")

    def test_model(self):
        model = small_model.write(self.folder / "model")
        sentences = self.folder / "sentences.txt"
        sentences.write_text("hello world\na world\nhello\n")
        hidden = self.folder / "hidden.npy"
        found = self.results("model", "--model", str(model), "--input", str(sentences), "--encoder", str(model),
                             "--batch", "2", "--shape", "2,16", "--mask", "window(3)", "--dtype", "f32",
                             "--hidden-out", str(hidden), "--split")  # fmt: skip
        rows = {row["id"]: row for row in found["rows"]}
        self.assertEqual(list(rows), ["first embedding f32", "sentences f32 batch 2", "one sentence f32",
                                      "encoder (2,16) f32 window(3)"])  # fmt: skip
        throughput = rows["sentences f32 batch 2"]
        self.assertAlmostEqual(throughput["sentences_per_s"] * throughput["median_us"], 3e6, delta=1)
        self.assertGreater(throughput["cosine"], 1 - 1e-5)
        self.assertGreater(rows["first embedding f32"]["megabytes"], 1)
        encoder = rows["encoder (2,16) f32 window(3)"]
        self.assertLess(encoder["layer_frobenius"], 1e-5)
        linear, pairs = 2 * 32 * 8 * (4 * 8 + 2 * 16), 2 * (16 * 7 - 12)  # a window of 7, less at both ends
        self.assertAlmostEqual(encoder["gflops"] * encoder["median_us"] * 1e3, linear + 4 * pairs * 8, delta=1)
        self.assertEqual(npy.read(hidden)[0], (32, 8))
        self.assertAlmostEqual(encoder["share_of_matmul_peak"] * found["roofline"]["matmul_f32_gflops"], encoder["gflops"])
        # Beside each other the machine is as it is for both: not the best matmul of the run, and not far from it.
        self.assertLess(encoder["matmul_beside_gflops"], 1.5 * found["roofline"]["matmul_f32_gflops"])
        together = encoder["share_of_matmul_beside"] * encoder["matmul_beside_gflops"]
        self.assertTrue(0.2 < together / encoder["gflops"] < 5, encoder)
        split = encoder["split"]
        self.assertEqual([step["work"].split()[0] for step in split["steps"]],
                         ["embed", "linear", "attend_packed", "linear", "add_layer_norm", "linear", "linear"])  # fmt: skip
        self.assertAlmostEqual(1e9 * sum(step["gflop"] for step in split["steps"]), linear + 4 * pairs * 8, delta=1)
        self.assertEqual([step["activation_us"] != 0 for step in split["steps"] if "gelu" not in step["work"]], [False] * 6)
        self.assertTrue(0 < split["busy"] and split["whole_us"] > 0 and split["calls"] >= 3)
        self.assertGreater(split["matmul_gflops"], 0)

    def test_sentences_are_checked_for_every_pooling_and_without_layers(self):
        model = small_model.write(self.folder / "model")
        (model / "1_Pooling").mkdir()
        types = ("Transformer", ""), ("Pooling", "1_Pooling")
        (model / "modules.json").write_text(json.dumps(
            [{"type": f"sentence_transformers.models.{name}", "path": path} for name, path in types]))  # fmt: skip
        sentences = self.folder / "sentences.txt"
        sentences.write_text("hello world\na world\n")
        arguments = ("model", "--part", "sentences", "--model", str(model), "--input", str(sentences), "--batch", "2",
                     "--dtype", "f32")  # fmt: skip
        for layers in (1, 0):
            small_model.write(model, config={"num_hidden_layers": layers})
            for pooling in ("cls", "mean", "max", "lasttoken"):
                with self.subTest(layers=layers, pooling=pooling):
                    (model / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode": pooling}))
                    self.assertGreater(self.results(*arguments)["rows"][1]["cosine"], 1 - 1e-5)

    def test_a_checkpoint_that_is_not_checked_is_not_timed(self):
        model = small_model.write(self.folder / "model", config={"num_hidden_layers": 0})
        sentences = self.folder / "sentences.txt"
        sentences.write_text("hello world\n")
        accepted = "accepted: a BERT, whose definition its output is checked against"
        for arguments, message in (
            *((("--part", "sentences", "--model", str(FAMILIES / name)), f"--model {FAMILIES / name}: a {kind}; {accepted}")
              for name, kind in (("roberta", "RobertaForMaskedLM"), ("distilbert", "DistilBertForMaskedLM"),
                                 ("gpt2", "GPT2LMHeadModel"), ("modernbert", "ModernBertForMaskedLM"))),
            (("--part", "encoder", "--encoder", str(model), "--shape", "1,8"),
             f"--encoder {model}: 0 layers; accepted: 1 or more, of which one is checked"),
        ):  # fmt: skip
            with self.subTest(arguments):
                done = stof("model", *arguments, "--input", str(sentences), *SHORT)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (3, "", f"stof: {message}\n"))

    def test_dense_layers_are_not_checked(self):
        model = small_model.write(self.folder / "model")
        modules = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense")]
        (model / "modules.json").write_text(json.dumps([{"path": path, "type": f"sentence_transformers.models.{name}"} for path, name in modules]))
        for path, _ in modules[1:]:
            (model / path).mkdir()
        (model / "1_Pooling/config.json").write_text("{}")
        (model / "2_Dense/config.json").write_text(json.dumps({"in_features": 8, "out_features": 3, "bias": False}))
        small_model.write_safetensors(model / "2_Dense/model.safetensors", {"linear.weight": ("F32", [3, 8])})
        sentences = self.folder / "sentences.txt"
        sentences.write_text("hello world\n")
        done = stof("model", "--part", "sentences", "--model", str(model), "--input", str(sentences), *SHORT)
        self.assertEqual((done.returncode, done.stderr),
                         (3, f"stof: --model {model}: dense layers behind the pooling; accepted: a BERT without them\n"))  # fmt: skip

    def test_a_grid_is_tuned_and_goes_on(self):
        model = small_model.write(self.folder / "model")
        sentences = self.folder / "sentences.txt"
        sentences.write_text("hello world\n")
        file = self.folder / "grid.json"
        arguments = ("model", "--part", "grid", "--encoder", str(model), "--mask", "window(3)", "--shape", "2,8", "--dtype",
                     "f32", *SHORT, "--json", str(file))  # fmt: skip
        environment = dict(os.environ, XDG_CACHE_HOME=str(self.folder / "cache"))
        for ablations in (("both",), ("both", "attention", "fusion", "none")):
            words = [x for name in ablations for x in ("--ablation", name)]
            done = stof(*arguments, *words, "--resume", environment=environment)
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = json.loads(file.read_text())["rows"]
            self.assertEqual([row["ablation"] for row in rows], list(ablations))
        both, attention, fusion, none = rows
        self.assertLess(both["f32_error"], 1e-5)
        self.assertLess(both["f32_worst_row"], 1e-4)
        self.assertGreaterEqual(both["f32_worst_row"], both["f32_error"])
        self.assertNotIn("f32_error", fusion)  # all pairs: another result
        self.assertGreater(both["wall"]["median_us"], 0)
        self.assertGreater(both["tuning"]["measured"], 3)
        self.assertTrue(both["moves"])
        self.assertEqual(attention["plan"]["scheme"], none["plan"]["scheme"])
        self.assertEqual(len(none["plan"]["confirmed"]), 1)

    def test_start(self):
        model = small_model.write(self.folder / "model")
        sentences = self.folder / "sentences.txt"
        sentences.write_text("hello world\n")
        found = self.results("model", "--part", "start", "--model", str(model), "--input", str(sentences), "--dtype", "f32")
        self.assertEqual([row["id"] for row in found["rows"]], ["first embedding f32"])
        row = found["rows"][0]  # a warm start
        self.assertEqual((row["measured"], row["compiled"]), (0, 0))

    def test_start_takes_any_line(self):
        model = small_model.write(self.folder / "model")
        sentences = self.folder / "sentences.txt"
        for name, text in ((model, b"hello " * 50000), (model, b""), (GPT2, b"\0hello")):
            with self.subTest(text=text[:20]):
                sentences.write_bytes(text + b"\n")
                self.results("model", "--part", "start", "--model", str(name), "--input", str(sentences), "--dtype", "f32")

    def test_start_says_why_a_run_failed(self):
        sentences = self.folder / "sentences.txt"
        sentences.write_text("\n")
        done = stof("model", "--part", "start", "--model", GPT2, "--input", str(sentences), "--dtype", "f32", *SHORT)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("stof: 'stof run' of the sentence of median length ended with exit code 2:\n", done.stderr)
        self.assertTrue(done.stderr.endswith("\nstof: stdin: line 1 has no tokens; accepted: 1 or more\n"), done.stderr)

    def test_without_a_device_it_is_that_of_a_session(self):
        model = str(small_model.write(self.folder / "model"))
        sentences = self.folder / "sentences.txt"
        sentences.write_text("hello world\n")
        done = stof("model", "--part", "start", "--model", model, "--input", str(sentences), "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        run = subprocess.run([STOF, "run", "--model", model, "--text", "a", "--json", "-"], capture_output=True, text=True,
                             timeout=120, check=True)  # fmt: skip
        self.assertEqual(json.loads(done.stdout)["device"], json.loads(run.stdout)["device"])

    def test_errors(self):
        model = ("model", "--part", "encoder")
        for arguments, code, message in (
            ((), 2, "no command of 'bench'; accepted: attention, model"),
            (("models",), 2, "'models' is no command of 'bench'; accepted: attention, model"),
            (("attention", "--shape", "1,2,3"), 2, "--shape 1,2,3; accepted: B,H,S,D, as in 1,12,2048,64"),
            (("attention", "--dtype", "f64"), 2, "--dtype f64; accepted: f32, f16, bf16"),
            (("attention", "--threads", "-1"), 2, "--threads -1; accepted: 0 (all) to 1024"),
            (("attention", "--seconds", "0"), 2, "--seconds 0; accepted: above 0, to 60"),
            (("attention", "--resume"), 2, "--resume goes on with a file: --json FILE names it"),
            (("attention", "--shape", "1,1,0,16", "--device", "cpu"), 2, "--shape 1,1,0,16: a length of 0; accepted: at least 1"),
            (("model", "--part", "encoder", "--encoder", GPT2, "--shape", "1,8", "--device", "cpu"), 3,
             f"--encoder {GPT2}: a GPT2LMHeadModel; accepted: a BERT, whose definition its output is checked against"),
            (("attention", "--shape", "1,1,8,300", "--device", "cpu"), 2,
             "attention: head_dim = 300; accepted: 1..256"),
            (("attention", "--shape", "1,1,8,16", "--mask", "causal", "--mask", "windw(3)", "--device", "cpu"), 2,
             "mask: unknown term 'windw' (did you mean 'window'?); accepted: all, none, causal, window, dilated, strided, global, sink, prefix, "
             "documents, document_ids, segments, blocks, random_blocks, tree, bits, natten, where, heads, batch, "
             "longformer, bigbird\n  windw(3)\n  ^"),
            (("attention", "--kernel", "nope", "--device", "cpu"), 2,
             "unknown attention kernel 'nope'; accepted: auto, block_attention, row_attention"),
            (("attention", "--device", "cuda:h200"), 4, DESCRIBED),
            (("model", "--device", "cuda:h200"), 4, DESCRIBED),
            (("model", "--device", "cpu", "--dtype", "f32", "--dtype", "f16"), 3, "no matmul in f16 on the CPU; accepted: f32, bf16"),
            *((("model", *part, option, value), 2, f"{option} is of the grid's rows, which --part {name} has not; accepted: grid, more")
              for part, name in (((), "all"), (("--part", "encoder"), "encoder"), (("--part", "start"), "start"))
              for option, value in (("--ablation", "both"), ("--only", "gpt2"), ("--budget", "9s"))),
            *((("model", *part, "--batch", "1"), 2, f"--batch is of the sentences' rows, which --part {name} has not{why}; accepted: sentences, or all with --model")
              for part, name, why in (((), "all", " without --model"), (("--part", "grid"), "grid", ""), (("--part", "start"), "start", ""))),
            (("model", "--split", "--device", "cpu"), 2, "--split goes into the JSON alone; accepted with it: --json"),
            (("model", "--part", "half"), 2, "--part half; accepted: all, sentences, encoder, start, grid, more"),
            (("model", "--part", "sentences"), 2, "sentences need a checkpoint: --model DIR"),
            ((*model, "--split", "--device", "cuda"), 2, "--split with --device cuda; accepted: cpu"),
            (("model", "--part", "grid", "--split", "--device", "cpu"), 2, "--split is of the encoder's rows, which --part grid has not; accepted: all, encoder"),
            (("model", "--part", "start", "--hidden-out", "h.npy"), 2, "--hidden-out is of the encoder's rows, which --part start has not; accepted: all, encoder"),
            (("model", "--part", "start"), 2, "sentences need a checkpoint: --model DIR"),
            (("model", "--part", "grid", "--ablation", "all"), 2, "--ablation all; accepted: both, attention, fusion, none"),
            (("model", "--part", "grid", "--only", "gpt9"), 2, "--only 'gpt9': no row of the grid has that"),
            (("model", "--part", "more", "--only", "gpt2"), 2, "--only 'gpt2': no row of the grid has that"),
            (("model", "--part", "more", "--encoder", "x"), 2,
             "--part more has models of its own; --encoder goes with --part grid"),
            (("model", "--part", "grid", "--budget", "9"), 2, "--budget 9; accepted: a time as in 30s or 2m, at most 10080m"),
            ((*model, "--shape", "0,4"), 2, "--shape 0,4; accepted: B,S, as in 8,128, both at least 1, at most 16777216 tokens"),
            (("model", "--part", "sentences", "--model", GPT2, "--batch", "0"), 2, "--batch 0; accepted: 1 or more"),
            ((*model, "--threads", "9999"), 2, "--threads 9999; accepted: 0 (all) to 1024"),
        ):  # fmt: skip
            done = stof(*arguments)
            self.assertEqual((done.returncode, done.stderr), (code, f"stof: {message}\n"))


if __name__ == "__main__":
    unittest.main()
