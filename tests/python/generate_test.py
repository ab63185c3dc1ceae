#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Texts that go on, by python/stof: as the program prints them; told of piece by piece, streamed, and stopped.

usage: generate_test.py LIBSTOF.SO STOF MODEL    MODEL: all-MiniLM-L6-v2
"""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock

from models import FAMILIES, ROOT, TEXTS, Models, generated, texts_of

import stof
from stof.continuations import Told


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

    def test_whatever_is_an_integer_counts_tokens(self):
        class Two:
            def __index__(self):
                return 2

        self.assertEqual(list(map(len, self.load("llama", logits=True).generate([[5]], Two(), ends=[]))), [2])

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

    def test_true_of_numpy_ends_a_text(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("no NumPy")
        session = self.load("gpt2", logits=True)
        for said, count in ((numpy.True_, 1), (numpy.False_, 3), (numpy.int32(1), 3)):
            (made,) = session.generate([[5]], 3, ends=[], token=lambda number, token, said=said: said)
            self.assertEqual(len(made), count)

    def test_a_text_that_was_ended_is_not_told_of_again(self):
        session, told = self.load("llama", logits=True), []
        ids = session.generate(session.tokenize(TEXTS[:1]), 20, ends=[])[0]

        def token(number, piece):
            told.append(piece)
            return piece == ""  # while bytes are missing

        (text,) = session.generate(TEXTS[:1], 20, ends=[], token=token)
        self.assertEqual((told[-1], told.count("")), ("", 1))
        self.assertEqual(text[: len("".join(told))], "".join(told))
        self.assertEqual(text, "".join(told) + "\ufffd")
        self.assertLess(len(told), len(ids))

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

    def test_chances_go_by_the_place_of_a_prompt(self):
        session, drawn = self.load("llama", logits=True), {"tokens": 12, "temperature": 1.5, "seed": 3, "ends": []}
        first, second, third = session.generate(["a", "a", "b"], **drawn)
        self.assertNotEqual(first, second)
        self.assertEqual(session.generate(["a"], **drawn), [first])
        self.assertEqual(session.generate(["b", "a"], **drawn)[1], second)
        self.assertNotEqual(session.generate(["b"], **drawn), [third])

    def test_ctrl_c_ends_a_call(self):
        session, prompts, asked = self.load("llama", logits=True), [[5]] * 1600, {"tokens": 150, "ends": [], "batch": 8}
        (want,) = session.generate([[5]], 150, ends=[])
        for token in (None, lambda number, token: None, lambda number, token: time.sleep(60 if number == 0 else 0)):
            calls = session.statistics["calls"]
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            with self.assertRaises(KeyboardInterrupt):
                session.generate(prompts, token=token, **asked)
            self.assertLess(session.statistics["calls"] - calls, 200)  # of as many batches
            self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)
            self.assertEqual(session.generate([[5]], 150, ends=[]), [want])

    def test_what_a_handler_raises_ends_a_call(self):
        class Late(Exception):
            pass

        def handle(*_):
            raise Late

        session, prompts = self.load("llama", logits=True), [[5]] * 1600
        for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT):
            self.addCleanup(signal.signal, number, signal.signal(number, handle))
        for token in (None, lambda number, token: None, lambda number, token: time.sleep(60 if number == 0 else 0)):
            for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT):
                calls, threads = session.statistics["calls"], threading.active_count()
                late = threading.Timer(0.1, os.kill, (os.getpid(), number))
                late.start()
                with self.assertRaises(Late):
                    session.generate(prompts, 150, ends=[], batch=8, token=token)
                late.join()
                self.assertLess(session.statistics["calls"] - calls, 200)  # of as many batches
                self.assertEqual(threading.active_count(), threads)
        session.generate([[5]], 3, ends=[])

    def test_a_signal_that_another_thread_gets_ends_a_call(self):
        session = self.load("llama", logits=True)
        threading.Timer(0.1, signal.raise_signal, (signal.SIGINT,)).start()
        calls = session.statistics["calls"]
        with self.assertRaises(KeyboardInterrupt):
            session.generate([[5]] * 1600, 150, ends=[], batch=8)
        self.assertLess(session.statistics["calls"] - calls, 200)

    def test_who_is_told_is_in_the_thread_that_calls(self):
        session, seen = self.load("llama", logits=True), []
        work = lambda: session.generate([[5]], 2, ends=[], token=lambda number, token: seen.append(threading.current_thread()))
        work()
        other = threading.Thread(target=work)
        other.start()
        other.join()
        self.assertEqual(seen, [threading.main_thread()] * 2 + [other] * 2)

    def test_handlers_of_others_stay(self):
        session, noted = self.load("llama", logits=True), []
        signal.signal(signal.SIGINT, lambda *_: noted.append(1))
        self.addCleanup(signal.signal, signal.SIGINT, signal.default_int_handler)
        session.generate([[5]], 3, ends=[], token=lambda number, token: signal.raise_signal(signal.SIGINT))
        self.assertEqual(len(noted), 3)

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
        want = session.generate(["a"], 150, ends=[])
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
        self.assertEqual(session.generate(["a"], 150, ends=[]), want)

    def test_a_stream_that_is_left_stops_its_call(self):
        session, times = self.load("llama", logits=True), []
        real = Told.tell

        def slow(of_call, number, token):
            times.append(time.sleep(0.01))
            return real(of_call, number, token)

        with unittest.mock.patch.object(Told, "tell", slow):
            for _ in session.stream("a", 150, ends=[]):
                break
            gc.collect()
            self.assertLess(len(times), 75)
            told = len(times)
            time.sleep(0.05)
            self.assertEqual(len(times), told)

    def test_a_stream_that_cannot_begin(self):
        session = self.load("llama", logits=True)
        with unittest.mock.patch.object(threading.Thread, "start", side_effect=RuntimeError("no threads")):
            for call in (lambda: next(session.stream("a")), lambda: session.generate(["a"])):
                with self.assertRaisesRegex(RuntimeError, "^no threads$"):
                    call()

    def test_a_stream_does_not_hold_up_the_end_of_the_program(self):
        program = f"""if True:
            import atexit, threading, time, stof
            from stof.continuations import Told
            real, told = Told.tell, []
            Told.tell = lambda *all: (time.sleep(0.05), told.append(1), real(*all))[-1]
            atexit.register(lambda: print(len(told) < 20, threading.active_count()))
            session = stof.Session({str(FAMILIES / "llama")!r}, "cpu", threads=1, logits=True)
            stream = session.stream([1, 2, 3], 150, ends=[])
            next(stream)"""
        for end in ("", "\n            raise SystemExit(0)"):
            done = subprocess.run([sys.executable, "-c", program + end], capture_output=True, text=True, timeout=120, check=False,
                                  env={**os.environ, "PYTHONPATH": str(ROOT / "python")})  # fmt: skip
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "True 1\n", ""))

    def test_what_a_stream_raises(self):
        session = self.load("llama")
        with self.assertRaisesRegex(stof.InvalidArgument, "^this session gives hidden states; accepted for generating: a decoder's, loaded with logits=True$"):
            session.stream("a")
        with self.assertRaisesRegex(stof.InvalidArgument, r"^stream has no token=; accepted: generate\(\.\.\., token=\)$"):
            session.stream("a", token=print)


if __name__ == "__main__":
    unittest.main()
