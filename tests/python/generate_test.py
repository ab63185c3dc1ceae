#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Texts that go on, by python/stof: as the program prints them; told of piece by piece, streamed, and stopped.

usage: generate_test.py LIBSTOF.SO STOF MODEL    MODEL: all-MiniLM-L6-v2
"""

import gc
import os
import signal
import threading
import time
import unittest

from models import TEXTS, Models, generated, texts_of

import stof


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

    def test_what_a_stream_raises(self):
        session = self.load("llama")
        with self.assertRaisesRegex(stof.InvalidArgument, "^this session gives hidden states; accepted for generating: one with logits$"):
            list(session.stream("a"))
        with self.assertRaisesRegex(stof.InvalidArgument, r"^stream has no token=; accepted: generate\(\.\.\., token=\)$"):
            session.stream("a", token=print)


if __name__ == "__main__":
    unittest.main()
