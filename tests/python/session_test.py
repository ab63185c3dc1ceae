#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models by python/stof: a real checkpoint against reference vectors, small ones against what transformers computed.
How long they live, and who may use them.

usage: session_test.py LIBSTOF.SO STOF MODEL    MODEL: all-MiniLM-L6-v2
"""

import copy
import gc
import logging
import math
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
import warnings
import weakref
from pathlib import Path

from models import ALONE, FAMILIES, MODEL, ROOT, STOF, TEXTS, Models, npy, reference, rows, texts_of

import small_model
import stof
from stof.c_library import Stof


class Embedding(Models):
    def test_the_vectors_of_a_real_model(self):
        self.assertTrue((MODEL / "model.safetensors").exists(), f"no checkpoint in {MODEL}; `make model` fetches it")
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

    def test_the_examples_of_the_pages(self):
        page = (ROOT / "docs/python.md").read_text(encoding="utf-8")
        example = page[page.index("## Models") :].split("```python\n")[1].split("```")[0]
        (short,) = [line for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines() if "stof.Session(" in line]
        self.assertIn("stof.Session(", example)
        for program in (example, "import stof\n" + short):
            done = subprocess.run([sys.executable, "-W", "error", "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
                                  env={**os.environ, "PYTHONPATH": str(ROOT / "python")})  # fmt: skip
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_every_token_is_as_in_transformers(self):
        for family in ("llama", "modernbert", "roberta"):
            session, texts = self.load(family), texts_of(family)
            want = reference(family, "hidden")
            ids = session.tokenize(texts)
            for found in (session.run(texts), session.run(ids), session.embed(texts, pooling="none", batch=4)):
                self.assertEqual([len(one) for one in found], [len(one) for one in ids])
                self.expect_close([row for one in found for row in rows(one)], want)

    def test_dense_layers_are_as_in_sentence_transformers(self):
        session = self.load("gemma3_with_dense")
        self.assertEqual((session.columns, session.pooled_columns), (32, 40))
        texts = texts_of("gemma3_with_dense")
        self.expect_close(rows(session.embed(texts)), reference("gemma3_with_dense", "embeddings"))
        self.assertEqual({len(row) for tokens in session.embed(texts, pooling="none") for row in rows(tokens)}, {32})

    def test_global_tokens_are_as_in_transformers(self):
        session = self.load("longformer", global_tokens=3)
        got = session.embed(texts_of("longformer"), pooling="none")
        self.expect_close([row for one in got for row in rows(one)], reference("longformer", "global_tokens"))
        with self.assertRaisesRegex(stof.InvalidArgument, "^global_tokens is '3', of type str; accepted: an integer$"):
            self.load("longformer", global_tokens="3")

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


    def test_batches_give_what_one_call_gives(self):
        """Bit for bit, in the order of the texts."""
        session, texts = self.load("roberta"), texts_of("roberta") * 3
        ids = session.tokenize(texts, most=session.max_tokens)
        listed = lambda made: [one.tolist() for one in made] if isinstance(made, list) else made.tolist()
        for pooling in ("cls", "mean", "none"):
            want = [listed(session.embed([one], pooling))[0] for one in ids]
            for given in (texts, ids):
                for batch in (1, 4, len(texts), 1000):
                    self.assertEqual(listed(session.embed(given, pooling, batch=batch)), want)
        calls = session.statistics["calls"]
        session.embed(ids, batch=4)
        self.assertEqual(session.statistics["calls"] - calls, -(-len(ids) // 4))


class Living(Models):
    def test_signals_are_heard_between_batches(self):
        session, texts = self.load("llama"), [[5] * 150] * 3000
        want = session.embed(texts[:1], "last").tolist()

        def interrupt(calls):
            while session.statistics["calls"] == calls:
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGINT)

        for pooling in ("last", "none"):
            calls = session.statistics["calls"]
            thread = threading.Thread(target=interrupt, args=(calls,))
            thread.start()
            with self.assertRaises(KeyboardInterrupt):
                session.embed(texts, pooling, batch=1)
            thread.join()
            self.assertLess(session.statistics["calls"] - calls, 3000)  # of as many batches
            self.assertEqual(session.embed(texts[:1], "last").tolist(), want)

    def test_threads_share_a_session(self):
        session = self.load("llama", logits=True)
        want = session.generate(TEXTS, 10, ends=[]), rows(session.embed(TEXTS))
        found = []

        def work():
            for _ in range(4):
                told = []
                found.append((session.generate(TEXTS, 10, ends=[], token=lambda *one: told.append(one)), rows(session.embed(TEXTS)), len(told)))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(found), 16)
        for texts, values, told in found:
            self.assertEqual(texts, want[0])
            self.assertGreaterEqual(told, 30)
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

    def test_closing_from_another_thread_while_tokenizing(self):
        for use in (lambda session: session.tokenize(["masks " * 200000]), lambda session: session.statistics, lambda session: session.device,
                    lambda session: session.device_name):  # fmt: skip
            session = self.load("llama")
            loaded, inside = session._loaded, []

            def closed_behind(session=session, loaded=loaded, inside=inside):
                kept = loaded()
                inside.append(weakref.ref(kept))
                thread = threading.Thread(target=session.close)
                thread.start()
                thread.join()
                return kept

            session._loaded = closed_behind
            alive = []
            for name in ("tokenize", "statistics"):
                real = getattr(Stof, name)
                told = lambda *all, real=real: (alive.append(inside[0]() is not None), real(*all))[1]
                patched = unittest.mock.patch.object(Stof, name, told)
                patched.start()
                self.addCleanup(patched.stop)
            self.assertTrue(use(session))
            self.assertTrue(all(alive))
            self.assertIsNone(inside[0]())

    def test_what_is_closed_is_freed_at_once(self):
        def left(session):
            for _ in session.stream("The bread", tokens=150):
                break

        def raises(*_):
            raise ValueError

        def fails(session, work):
            try:  # assertRaises would clear the frames
                work(session)
            except ValueError:
                return
            self.fail("nothing was raised")

        token = lambda number, piece: None
        other = lambda work: (thread := threading.Thread(target=work), thread.start(), thread.join())
        mapped = lambda: str(FAMILIES / "qwen3") in Path("/proc/self/maps").read_text(encoding="utf-8")
        gc.collect()
        gc.disable()  # cycles of references would stay
        self.addCleanup(gc.enable)
        for use in (
            lambda session: session.generate(["The bread"], 4),
            lambda session: session.generate(["The bread"], 4, token=token),
            lambda session: session.generate([[1, 2]], 4, token=token),
            lambda session: list(session.stream("The bread", tokens=4)),
            left,
            lambda session: fails(session, lambda one: one.generate([[1, 2]], 4, token=raises)),
            lambda session: other(lambda: fails(session, lambda one: one.generate(["a"], 4, token=raises))),
            lambda session: other(lambda: session.generate(["a"], 4, token=token)),
            lambda session: fails(session, lambda one: list(one.stream([5] * 500))),
        ):
            session = stof.Session(FAMILIES / "qwen3", "cpu", threads=1, logits=True)
            self.assertTrue(mapped())
            use(session)
            kept = weakref.ref(session._kept)
            session.close()
            self.assertIsNone(kept())
            self.assertFalse(mapped())

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

    def test_a_session_is_not_copied(self):
        session = self.load("roberta")
        for work in (copy.copy, copy.deepcopy, pickle.dumps):
            with self.assertRaisesRegex(TypeError, "^a stof.Session is neither copied nor pickled: any number of threads may call one, "):
                work(session)

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
                           capture_output=True, check=True, timeout=120, env={**ALONE, "XDG_CACHE_HOME": folder})  # fmt: skip
            (plan,) = Path(folder).glob("stof/plans/*.plan")
            plan.write_text("{")
            with self.assertLogs("stof", logging.WARNING) as logged:
                stof.Session(model, "cpu", threads=1).embed([[5] * 8])
            self.assertIn(f"'{plan}' is not used: ", logged.output[0])
            with self.assertNoLogs("stof"):
                stof.Session(model, "cpu", threads=1, tuned=False).embed([[5] * 8])


if __name__ == "__main__":
    unittest.main()
