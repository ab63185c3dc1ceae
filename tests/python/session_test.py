#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models by python/stof: a real checkpoint against reference vectors, small ones against what transformers computed and the
program prints; what is told while texts go on, and what is refused.

usage: session_test.py LIBSTOF.SO STOF MODEL    MODEL: all-MiniLM-L6-v2
"""

import gc
import json
import logging
import math
import os
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
from pathlib import Path

import given  # noqa: F401  (finds the package)

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/cli"))
import npy  # noqa: E402
import small_model  # noqa: E402

import stof  # noqa: E402

MODEL, STOF = sys.argv.pop(), sys.argv.pop()
FAMILIES = ROOT / "tests/data/families"
BOUND = 4e-5
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
                          input="\n".join(texts), capture_output=True, text=True, encoding="utf-8", timeout=120, check=True)  # fmt: skip
    return json.loads(done.stdout)["texts"]


class Models(unittest.TestCase):
    def load(self, family, **options):
        session = stof.Session(FAMILIES / family, **{"device": "cpu", **options})
        self.addCleanup(session.close)
        return session

    def expect_close(self, got, want, bound=BOUND):
        self.assertEqual(len(got), len(want))
        for a, b in zip(got, want):
            self.assertEqual(len(a), len(b))
            self.assertLessEqual(max(abs(x - y) for x, y in zip(a, b)), bound)


class Embedding(Models):
    def test_the_vectors_of_a_real_model(self):
        self.assertTrue(Path(MODEL, "model.safetensors").exists(), f"no checkpoint in {MODEL}; `make model` fetches it")
        with stof.Session(MODEL, "cpu") as session:
            sentences = (ROOT / "data/sentences.txt").read_text(encoding="utf-8").splitlines()[:60]
            want = npy.read(ROOT / "tests/data/minilm_embeddings.npy")[2]
            got = session.embed(sentences)
            self.assertEqual(got.shape, (60, 384))
            self.expect_close(rows(got), [want[i * 384 : (i + 1) * 384] for i in range(60)], 2e-5)
            self.assertEqual((session.hidden_size, session.columns, session.max_tokens, session.pooling), (384, 384, 256, "mean"))
            for row in rows(got):
                self.assertAlmostEqual(math.hypot(*row), 1, places=5)
            tokens = session.embed(sentences[:3], pooling="none")
            of_ids = session.embed(session.tokenize(sentences[:3]), batch=2)
            self.expect_close(rows(of_ids), rows(got)[:3], 1e-6)
            for row, vector in zip(tokens, rows(got)):
                mean = [sum(column) / len(column) for column in zip(*rows(row))]
                self.expect_close([[x / math.hypot(*mean) for x in mean]], [vector], 1e-6)

    def test_every_token_is_as_in_transformers(self):
        for family in ("llama", "modernbert", "roberta"):
            session, texts = self.load(family), texts_of(family)
            want = reference(family, "hidden")
            ids = session.tokenize(texts)
            for found in (session.run(texts), session.run(ids), session.embed(texts, pooling="none", batch=4)):
                self.assertEqual([len(one) for one in found], [len(one) for one in ids])
                self.expect_close([row for one in found for row in rows(one)], want)

    def test_scores_are_as_in_transformers(self):
        session = self.load("gpt2", logits=True)
        self.assertEqual((session.columns, session.hidden_size, session.vocabulary), (800, 32, 800))
        self.expect_close(rows(session.embed(texts_of("gpt2"), pooling="last")), reference("gpt2", "logits"))

    def test_long_texts_are_cut_with_a_warning_or_refused(self):
        session, texts = self.load("roberta"), ["short", "masks " * 400]
        with self.assertWarnsRegex(UserWarning, r"^1 of 2 texts cut to \d+ tokens$") as warned:
            got = session.embed(texts)
        self.assertEqual(warned.filename, __file__)
        ids = session.tokenize(texts, most=session.max_tokens)
        self.expect_close(rows(session.embed(ids)), rows(got))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            session.embed(["short"])
            with self.assertRaisesRegex(stof.InvalidArgument, r"^text 1 has \d+ tokens; accepted without truncation: at most \d+$"):
                session.embed(texts, truncate=False)

    def test_a_mask_is_text_a_mask_or_a_function(self):
        text, ids = "window(1)", [[5, 9, 17, 3, 4]]
        want = rows(self.load("roberta", mask=text).embed(ids))
        self.assertNotEqual(want, rows(self.load("roberta").embed(ids)))
        for mask in (stof.Mask(text), lambda b, h, q, k: abs(q - k) <= 1):
            self.expect_close(rows(self.load("roberta", mask=mask).embed(ids)), want, 1e-6)

    def test_no_texts(self):
        session = self.load("llama", logits=True)
        self.assertEqual(session.embed([]).shape, (0, 800))
        self.assertEqual((session.embed([], pooling="none"), session.run([]), session.tokenize([]), session.generate([])), ([], [], [], []))

    def test_without_numpy_there_is_a_memoryview(self):
        session, before = self.load("roberta"), sys.modules.get("numpy")
        sys.modules["numpy"] = None  # importing it fails
        self.addCleanup(sys.modules.__setitem__ if before else sys.modules.pop, "numpy", before)
        got = session.embed(["a mask", "b"])
        self.assertIsInstance(got, memoryview)
        self.assertEqual((got.shape, got.format), ((2, session.columns), "f"))
        self.assertEqual(session.embed([]).shape, (0, session.columns))
        self.assertEqual([one.shape for one in session.run([[5, 6], [7]])], [(2, session.columns), (1, session.columns)])

    def test_with_numpy_there_is_an_array(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("no NumPy")
        session = self.load("roberta")
        got = session.embed(["a mask", "b"])
        self.assertEqual((type(got), got.dtype, got.shape), (numpy.ndarray, numpy.float32, (2, session.columns)))
        ids = [numpy.array([5, 6]), numpy.array([7], numpy.int32)]
        self.assertEqual([one.shape for one in session.run(ids)], [(2, session.columns), (1, session.columns)])
        self.assertEqual(session.decode(numpy.array(session.tokenize(["a mask"])[0])), session.decode(session.tokenize(["a mask"])[0]))


class Generating(Models):
    def test_texts_behind_texts_and_ids_behind_ids(self):
        for family in ("llama", "mistral", "qwen3"):
            session = self.load(family, logits=True)
            want = generated(family, TEXTS, "--tokens", 20, "--go-on")
            self.assertEqual(session.generate(TEXTS, 20, ends=[]), [one["text"] for one in want])
            ids = session.tokenize(TEXTS)
            self.assertEqual(session.generate(ids, tokens=20, ends=[], batch=2), [one["ids"] for one in want])
            texts = texts_of(family)
            self.assertEqual(session.generate(texts, 12, ends=[]), [one["text"] for one in generated(family, texts, "--tokens", 12, "--go-on")])

    def test_chance_is_as_in_the_program(self):
        session = self.load("qwen2", logits=True)
        want = generated("qwen2", TEXTS, "--tokens", 9, "--temperature", 0.8, "--top-k", 30, "--top-p", 0.9, "--seed", 5, "--go-on")
        self.assertEqual(session.generate(TEXTS, 9, 0.8, top_k=30, top_p=0.9, seed=5, ends=[]), [one["text"] for one in want])
        self.assertNotEqual(session.generate(TEXTS, 9, 0.8, top_k=30, top_p=0.9, seed=2**64 - 1, ends=[]), [one["text"] for one in want])

    def test_texts_end_by_themselves(self):
        session = self.load("llama", logits=True)
        (ids,) = session.generate([[5, 6]], 12, ends=[])
        (ended,) = session.generate([[5, 6]], 12, ends=[ids[4]])
        self.assertEqual(ended, ids[: ids.index(ids[4]) + 1])
        (by_default,) = session.generate([[5, 6]])
        self.assertEqual(by_default, session.generate([[5, 6]], 128, ends=[2])[0])  # eos_token_id of its config.json

    def test_pieces_are_told_of_as_they_are_made(self):
        session = self.load("llama", logits=True)
        want, told = session.generate(TEXTS, 20, ends=[]), [[], [], []]
        self.assertEqual(session.generate(TEXTS, 20, ends=[], batch=2, token=lambda number, piece: told[number].append(piece)), want)
        self.assertEqual(["".join(pieces) for pieces in told], want)
        self.assertGreaterEqual(min(map(len, told)), 20)
        self.assertIn("", told[0])  # while bytes are missing
        ids, heard = session.tokenize(TEXTS), [[], [], []]
        self.assertEqual(session.generate(ids, 6, token=lambda number, token: heard[number].append(token)), heard)

    def test_true_ends_a_text(self):
        session = self.load("gpt2", logits=True)
        ids = session.tokenize(TEXTS)
        whole = session.generate(ids, 8, ends=[])
        got = session.generate(ids, 8, ends=[], token=lambda number, token: number == 1)
        self.assertEqual(got, [whole[0], whole[1][:1], whole[2]])
        for odd in (1, "yes", [1], None, False):  # what is merely like True goes on
            self.assertEqual(session.generate(ids, 3, ends=[], token=lambda number, token, odd=odd: odd), [one[:3] for one in whole])

    def test_what_is_raised_comes_out_and_the_session_is_as_before(self):
        session = self.load("qwen3", logits=True)
        whole = session.generate(TEXTS, 8, ends=[])
        for error in (KeyError("mine"), KeyboardInterrupt(), StopIteration(3), SystemExit(4)):
            told = []

            def token(number, piece, told=told, error=error):
                told.append(piece)
                if len(told) == 5:
                    raise error

            with self.assertRaises(type(error)) as failed:
                session.generate(TEXTS, 8, ends=[], token=token)
            self.assertIs(failed.exception, error)
            self.assertEqual(len(told), 5)
            self.assertEqual(session.generate(TEXTS, 8, ends=[]), whole)

    def test_a_stream(self):
        session = self.load("llama", logits=True)
        (want,) = session.generate(TEXTS[:1], 20, ends=[])
        pieces = list(session.stream(TEXTS[0], 20, ends=[]))
        self.assertEqual("".join(pieces), want)
        self.assertGreater(len(pieces), 10)
        self.assertNotIn("", pieces)
        (ids,) = session.tokenize(TEXTS[:1])
        self.assertEqual(list(session.stream(ids, tokens=5, ends=[])), session.generate([ids], 5, ends=[])[0])
        drawn = {"temperature": 0.8, "seed": 4, "ends": []}
        self.assertEqual(list(session.stream(ids, 7, **drawn)), session.generate([ids], 7, **drawn)[0])

    def test_a_stream_that_is_left(self):
        session, threads = self.load("llama", logits=True), threading.active_count()
        for leave in (lambda stream: stream.close(), lambda stream: None):
            calls = session.statistics["calls"]
            stream = session.stream("a", 150, ends=[])
            self.assertEqual(session.statistics["calls"], calls)  # it begins with the first reading
            next(stream)
            leave(stream)
            del stream
            gc.collect()
            self.assertEqual(threading.active_count(), threads)
        for number, _ in enumerate(session.stream("a", 150, ends=[])):
            if number == 3:
                break
        self.assertEqual(session.generate(["a"], 4, ends=[]), session.generate(["a"], 4, ends=[]))

    def test_what_a_stream_raises(self):
        session = self.load("llama")
        with self.assertRaisesRegex(stof.InvalidArgument, "^this session gives hidden states; accepted for generating: one with logits$"):
            list(session.stream("a"))
        with self.assertRaisesRegex(stof.InvalidArgument, r"^stream has no token=; accepted: generate\(\.\.\., token=\)$"):
            session.stream("a", token=print)


class Living(Models):
    def test_threads_share_a_session(self):
        session = self.load("llama", logits=True, threads=1)
        want = session.generate(TEXTS, 10, ends=[]), rows(session.embed(TEXTS))
        found = []

        def work():
            for _ in range(4):
                told = []
                found.append((session.generate(TEXTS, 10, ends=[], token=lambda *one: told.append(one)), rows(session.embed(TEXTS))))
                self.assertGreaterEqual(len(told), 30)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(found), 16)
        for texts, values in found:
            self.assertEqual(texts, want[0])
            self.expect_close(values, want[1], 1e-5)

    def test_closing_waits_for_no_one_and_breaks_no_call(self):
        session = self.load("llama", logits=True)
        (want,) = session.generate([[5]], 30, ends=[])

        def close_it(number, token):
            session.close()
            gc.collect()

        self.assertEqual(session.generate([[5]], 30, ends=[], token=close_it), [want])
        session.close()
        self.assertEqual(repr(session), f"Session({str(FAMILIES / 'llama')!r}, closed, logits=True)")
        for use in (lambda: session.embed(["a"]), lambda: session.generate(["a"]), lambda: session.run(["a"]), lambda: session.tokenize(["a"]),
                    lambda: session.decode([5]), lambda: list(session.stream("a")), lambda: session.device, lambda: session.statistics,
                    lambda: session.columns):  # fmt: skip
            with self.assertRaises(stof.InvalidArgument) as failed:
                use()
            self.assertEqual(str(failed.exception), f"this session of {str(FAMILIES / 'llama')!r} is closed")

    def test_a_context(self):
        with stof.Session(str(FAMILIES / "roberta"), device="cpu", dtype="bfloat16") as session:
            self.assertEqual(repr(session), f"Session({str(FAMILIES / 'roberta')!r}, device='cpu', dtype='bf16')")
            self.assertEqual((session.device, session.dtype), ("cpu", "bf16"))
            self.assertGreater(len(session.device_name), 2)
            self.assertEqual(session.statistics["calls"], 0)
            session.embed(["a"])
            self.assertEqual(session.statistics["calls"], 1)
        with self.assertRaises(stof.InvalidArgument):
            session.embed(["a"])

    def test_ids_to_texts(self):
        session = self.load("mistral")
        ids = session.tokenize(TEXTS)
        self.assertEqual(session.decode(ids), TEXTS)
        self.assertEqual(session.decode(ids[0]), TEXTS[0])
        self.assertEqual((session.decode([]), session.decode([[]])), ("", [""]))
        self.assertEqual(session.tokenize(TEXTS, most=2), [one[:2] for one in ids])
        self.assertEqual(session.decode(session.tokenize(["a\0b"])), ["a\0b"])

    def test_why_a_kept_plan_is_not_used_is_logged(self):
        with tempfile.TemporaryDirectory() as folder:
            before = os.environ.get("XDG_CACHE_HOME")
            os.environ["XDG_CACHE_HOME"] = folder
            self.addCleanup(os.environ.__setitem__ if before else os.environ.pop, "XDG_CACHE_HOME", before)
            model = small_model.write(Path(folder) / "model")
            subprocess.run([STOF, "tune", "--model", model, "--device", "cpu", "--seq", "8", "--threads", "1", "--json", "-"],
                           capture_output=True, check=True, timeout=120)  # fmt: skip
            (plan,) = Path(folder).glob("stof/plans/*.plan")
            plan.write_text("{")
            with self.assertLogs("stof", logging.WARNING) as logged:
                stof.Session(model, "cpu", threads=1).embed([[5] * 8])
            self.assertIn(f"'{plan}' is not used: ", logged.output[0])
            with self.assertNoLogs("stof"):
                stof.Session(model, "cpu", threads=1, tuned=False).embed([[5] * 8])


class Errors(Models):
    def refused(self, said, work, kind=stof.InvalidArgument):
        with self.assertRaises(kind) as failed:
            work()
        self.assertEqual(str(failed.exception), said)

    def test_loading(self):
        for options, said in (
            ({"dtype": "f8"}, "dtype 'f8'; accepted: f32, f16, bf16"),
            ({"device": 3}, "device 3; accepted: cpu, cuda, cuda:N, auto, a torch.device"),
            ({"mask": 3}, "a mask of type int; accepted: stof.Mask, a string of the mask language, a function for Mask.where"),
            ({"threads": 1.5}, "threads is 1.5, of type float; accepted: an integer"),
            ({"threads": -1}, "threads = -1; accepted: 0 (as many as OpenMP would take) to 1024"),
            ({"threads": 2**31}, "threads = 2147483648; accepted: -2147483648 to 2147483647"),
        ):
            self.refused(said, lambda: self.load("llama", **options))
        self.refused("no matmul in f16 on the CPU; accepted: f32, bf16", lambda: self.load("llama", dtype="f16"), stof.Unsupported)
        self.refused("folder of type int; accepted: a str, a path", lambda: stof.Session(3))
        self.refused("folder 'a\\x00b' has a 0 character; accepted: the name of a folder", lambda: stof.Session("a\0b"))
        self.refused("none: no such folder; a model is a folder with config.json, model.safetensors, and tokenizer.json or vocab.txt",
                     lambda: stof.Session("none"))  # fmt: skip

    def test_texts_and_ids(self):
        session = self.load("llama", logits=True)
        accepted = "accepted: a list of str, or of lists of token ids"
        for texts, said in (
            ("a text", f"texts of type str; {accepted}"),
            (b"a text", f"texts of type bytes; {accepted}"),
            (5, f"texts of type int; {accepted}"),
            (iter(["a"]), f"texts of type list_iterator; {accepted}"),
            ([5, 6], f"texts[0] of type int; {accepted}"),
            (["a", [5]], f"texts[0] of type str; {accepted}"),
            ([[5], "a"], f"texts[1] of type str; {accepted}"),
            ([[5], [1.5]], "texts[1]: 'float' object cannot be interpreted as an integer; accepted: integers of 32 bits"),
            ([[2**31]], "texts[0]: signed integer is greater than maximum; accepted: integers of 32 bits"),
            ([[5], []], "text 1 has 0 tokens; accepted: 1 to 200"),
            ([[5], [5, 800]], "text 1: its token 1 has id 800; accepted: 0 to 799"),
            (["a", "b\ud800"], "texts[1] has the lone surrogate '\\ud800' at 1; accepted: text of Unicode"),
        ):
            with self.subTest(said):
                self.refused(said, lambda: session.embed(texts, pooling="last"))
                self.refused(said, lambda: session.run(texts))
                self.refused(said.replace("texts", "prompts"), lambda: session.generate(texts))
        self.refused("texts are lists of ids; accepted: a list of str", lambda: session.tokenize([[5]]))
        self.refused("ids of type int; accepted: a list of token ids", lambda: session.decode(5))
        self.refused("ids[1] of type int; accepted: a list of token ids", lambda: session.decode([[5], 5]))
        self.refused("prompt of type int; accepted: a list of token ids", lambda: session.stream(5))
        self.refused("most = 0; accepted: 1 or more", lambda: session.tokenize(["a"], most=0))
        self.refused("text 0 has 201 tokens; accepted: 1 to 200", lambda: session.run([[5] * 201]))

    def test_options(self):
        session = self.load("llama", logits=True)
        for options, said in (
            ({"pooling": "sum"}, "pooling 'sum'; accepted: none, cls, mean, max, last"),
            ({"batch": 0}, "batch = 0; accepted: 1 or more"),
            ({"batch": "a"}, "batch is 'a', of type str; accepted: an integer"),
            ({"pooling": "mean"}, "logits of a text; accepted: those of every token (none) and of the last one"),
        ):
            self.refused(said, lambda: session.embed(["a"], **options))
        for options, said in (
            ({"tokens": 0}, "tokens = 0; accepted: 1 or more"),
            ({"batch": 0}, "batch = 0; accepted: 1 or more"),
            ({"temperature": -1}, "temperature = -1; accepted: 0 or more"),
            ({"temperature": "hot"}, "temperature is 'hot', of type str; accepted: a number"),
            ({"top_k": -1}, "top_k = -1; accepted: 0 or more"),
            ({"top_p": 0}, "top_p = 0; accepted: above 0, up to 1"),
            ({"top_p": 1.5}, "top_p = 1.5; accepted: above 0, up to 1"),
            ({"seed": -1}, f"seed = -1; accepted: 0 to {2**64 - 1}"),
            ({"ends": 5}, "ends of type int; accepted: a list of token ids"),
            ({"ends": [800]}, "a text is to end behind token 800; accepted: 0 to 799"),
        ):
            self.refused(said, lambda: session.generate(["a"], **options))
        self.refused("this session gives hidden states; accepted for generating: one with logits", lambda: self.load("llama").generate(["a"]))
        with self.assertRaisesRegex(stof.InvalidArgument, r"^text 1 has \d+ tokens; accepted without truncation: at most 199$"):
            session.generate(["a", "masks " * 300])
        (cut,) = session.generate(["masks " * 300], ends=[], truncate=True, token=lambda number, piece: None)
        self.assertEqual(cut, session.decode(session.generate(session.tokenize(["masks " * 300], most=199), ends=[])[0]))


if __name__ == "__main__":
    unittest.main()
