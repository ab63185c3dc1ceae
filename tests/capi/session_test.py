#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions of the C API against transformers, by what stands beside the small checkpoints, and against the program.

usage: session_test.py LIBSTOF.SO STOF cpu|cuda    exit status 77 where the device is not there
"""

import ctypes as c
import json
import math
import os
import tempfile
import threading
import unittest
from pathlib import Path

import c_library
from c_library import BF16, POOLINGS
from models import DECODERS, DEVICE, FAMILIES, STOF, Sessions, program, reference, rows_of, split, texts_of

C = STOF.library
ALL = (*DECODERS, "distilbert", "longformer", "modernbert", "modernbert_with_biases", "mpnet", "roberta", "t5", "t5_gated", "xlm_roberta")
NUMBER = {name: number for number, name in enumerate(POOLINGS)}


class Session(Sessions):
    def test_describes_itself(self):
        for family, columns in (("llama", 800), ("roberta", None)):
            config = json.loads((FAMILIES / family / "config.json").read_text())
            info = STOF.describe(self.load(family, logits=columns is not None))
            self.assertEqual((info.hidden_size, info.vocabulary), (config["hidden_size"], config["vocab_size"]))
            self.assertEqual(info.columns, columns or info.hidden_size)
            self.assertLessEqual(info.max_tokens, info.positions)
            self.assertLessEqual(info.positions, config["max_position_embeddings"])
            self.assertEqual(info.device.decode(), "cpu" if DEVICE == "cpu" else "cuda:0")
            self.assertGreater(len(info.device_name), 2)

    def test_every_token_is_as_in_transformers(self):
        for family in ALL:
            with self.subTest(family):
                session, texts = self.load(family), c_library.texts(texts_of(family))
                ids, truncated = STOF.tokenize(session, texts)
                (rows, columns), _, values = reference(family, "hidden")
                self.assertEqual((list(map(len, ids)), truncated), ([n for n in reference(family, "lengths")[2] if n > 0], 0))
                want = rows_of(values, columns)
                self.assertEqual(len(want), rows)
                self.expect_close(self.hidden(session, ids), want)
                for batch in (1, 5, 0):
                    got, truncated, lengths = self.embedded(session, texts, pooling=NUMBER["none"], batch=batch)
                    self.expect_close(got, want)
                    self.assertEqual((truncated, lengths), (0, list(map(len, ids))))
                self.expect_close(self.embedded(session, c_library.tokens(ids), pooling=NUMBER["none"])[0], want)

    def test_vectors_are_pooled_by_definition(self):
        session, texts = self.load("roberta", threads=2), c_library.texts(texts_of("roberta"))
        normalizes, of_model = (getattr(STOF.describe(session), name) for name in ("normalizes", "pooling"))
        ids = STOF.tokenize(session, texts)[0]
        tokens = split(self.hidden(session, ids), list(map(len, ids)))
        pooled = {"cls": lambda column: column[0], "last": lambda column: column[-1], "max": max, "mean": lambda column: sum(column) / len(column)}
        for name, pool in pooled.items():
            want = [[pool(column) for column in zip(*rows)] for rows in tokens]
            if normalizes:
                want = [[x / math.hypot(*row) for x in row] for row in want]
            for given in (texts, c_library.tokens(ids)):
                self.expect_close(self.embedded(session, given, pooling=NUMBER[name], batch=4)[0], want)
            if NUMBER[name] == of_model:
                self.expect_close(self.embedded(session, texts)[0], want)

    def test_dense_layers_are_as_in_sentence_transformers(self):
        session, family = self.load("gemma3_with_dense"), "gemma3_with_dense"
        info = STOF.describe(session)
        self.assertEqual((info.columns, info.pooled_columns), (32, 40))
        (_, columns), _, values = reference(family, "embeddings")
        texts = c_library.texts(texts_of(family))
        self.expect_close(self.embedded(session, texts)[0], rows_of(values, columns))
        self.assertEqual({len(row) for row in self.embedded(session, texts, pooling=NUMBER["none"])[0]}, {32})

    def test_global_tokens_are_as_in_transformers(self):
        session = self.load("longformer", global_tokens=3)
        (_, columns), _, values = reference("longformer", "global_tokens")
        got = self.embedded(session, c_library.texts(texts_of("longformer")), pooling=NUMBER["none"])[0]
        self.expect_close(got, rows_of(values, columns))

    def test_scores_are_as_in_transformers(self):
        for family in DECODERS:
            session = self.load(family, logits=1)
            (_, columns), _, values = reference(family, "logits")
            got = self.embedded(session, c_library.texts(texts_of(family)), pooling=NUMBER["last"], batch=3)[0]
            self.expect_close(got, rows_of(values, columns))

    def test_asking_for_sizes_computes_nothing(self):
        session = self.load("llama", logits=1)
        given, to = c_library.texts([b"a", b"masks " * 300]), c_library.Embeddings(c.sizeof(c_library.Embeddings))
        STOF.check(C.stof_session_embed_texts(session, given, None, to))
        self.assertEqual((to.rows, to.truncated), (2, 1))
        made = c_library.Generated(c.sizeof(c_library.Generated))
        STOF.check(C.stof_session_generate(session, c_library.tokens([[5] * 199, [5] * 10]), None, made))
        self.assertEqual(made.needed, 1 + 128)
        self.assertEqual(STOF.statistics(session).calls, 0)
        self.hidden(session, [[5, 6]])
        self.assertEqual(STOF.statistics(session).calls, 1)
        self.assertGreater(STOF.statistics(session).planned_bytes, 0)

    def test_long_texts_are_cut_and_counted(self):
        session = self.load("gpt2")
        most = STOF.describe(session).max_tokens
        long = b"masks " * 400
        texts = c_library.texts([long, b"short", long + b"and more"])
        got, truncated, lengths = self.embedded(session, texts)
        self.assertEqual((truncated, lengths[0], lengths[2]), (2, most, most))
        self.expect_close(got[:1], got[2:])
        ids, cut = STOF.tokenize(session, texts, most)
        self.assertEqual((list(map(len, ids)), cut), (lengths, 2))
        self.expect_close(self.embedded(session, c_library.tokens(ids))[0], got)

    def test_tokens_and_texts_are_the_programs(self):
        for family in ("mistral", "qwen3", "roberta"):
            session, texts = self.load(family), texts_of(family)
            want = program("tokenize", "--model", FAMILIES / family, "--input", "-", stdin="\n".join(t.decode() for t in texts) + "\n")
            want = [list(map(int, line.split())) for line in want.splitlines()]
            self.assertEqual(STOF.tokenize(session, c_library.texts(texts))[0], want)
            lines = "".join(" ".join(map(str, ids)) + "\n" for ids in want)
            said = program("tokenize", "--decode", "--model", FAMILIES / family, "--input", "-", stdin=lines)
            self.assertEqual("".join(STOF.decode(session, ids) + "\n" for ids in want), said)
            self.assertEqual(STOF.decode(session, []), "")

    def test_sizes_of_texts(self):
        session = self.load("llama")
        ended = c_library.texts([b"a mask", b""])
        ended.sizes = None
        ids = STOF.tokenize(session, ended)[0]
        self.assertEqual(STOF.tokenize(session, c_library.texts([b"a mask", b""]))[0], ids)
        longer = c_library.texts([b"a mask and more", b"?"])
        longer.sizes[0], longer.sizes[1] = 6, 0
        self.assertEqual(STOF.tokenize(session, longer)[0], ids)
        with_0 = STOF.tokenize(session, c_library.texts([b"a\0mask"]))[0][0]
        self.assertEqual(STOF.decode(session, with_0), "a\0mask")

    def test_no_texts(self):
        session = self.load("llama", logits=1)
        for none in (c_library.texts([]), c_library.tokens([])):
            self.assertEqual(self.embedded(session, none), ([], 0, []))
            self.assertEqual(self.generated(session, none), [])
        self.assertEqual(self.hidden(session, []), [])
        self.assertEqual(STOF.tokenize(session, c_library.texts([])), ([], 0))

    def test_a_mask_restricts_attention_and_may_go(self):
        mask = STOF.parse("window(0)")
        session, plain = self.load("roberta", mask=mask), self.load("roberta")
        C.stof_mask_destroy(mask)
        ids = [5, 9, 17, 9]
        got = self.hidden(session, [ids])
        self.expect_close(got[:1], self.hidden(plain, [ids[:1]]))  # sees itself alone
        self.assertGreater(max(abs(a - b) for a, b in zip(got[1], self.hidden(plain, [ids])[1])), 1e-3)

    def test_bf16_is_near_and_is_used(self):
        texts = c_library.texts(texts_of("modernbert"))
        got, want = (self.embedded(self.load("modernbert", dtype=dtype), texts)[0] for dtype in (BF16, 0))
        self.assertNotEqual(got, want)
        for a, b in zip(got, want):
            self.assertGreater(sum(x * y for x, y in zip(a, b)) / math.hypot(*a) / math.hypot(*b), 0.99)

    def test_threads_share_a_session(self):
        session = self.load("llama", logits=1)
        texts = c_library.texts(texts_of("llama"))
        ids = STOF.tokenize(session, texts)[0]
        alone = self.embedded(session, texts, pooling=NUMBER["last"])[0], self.generated(session, c_library.tokens(ids), tokens=8)
        found = []

        def work():
            for _ in range(3):
                found.append((self.embedded(session, texts, pooling=NUMBER["last"])[0], self.generated(session, c_library.tokens(ids), tokens=8)))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(found), 12)
        for values, made in found:
            self.expect_close(values, alone[0], 1e-5)
            self.assertEqual(made, alone[1])

    @unittest.skipIf(DEVICE != "cpu", "a plan of the CPU is damaged")
    def test_why_a_kept_plan_is_not_used_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            before = os.environ.get("XDG_CACHE_HOME")
            os.environ["XDG_CACHE_HOME"] = folder
            self.addCleanup(os.environ.__setitem__ if before else os.environ.pop, "XDG_CACHE_HOME", before)
            program("tune", "--model", FAMILIES / "roberta", "--device", "cpu", "--seq", 8, "--threads", 1, "--json", "-")
            (plan,) = Path(folder).glob("stof/plans/*.plan")
            plan.write_text("{")
            told = []
            log = c_library.LOG(lambda user, message: told.append((user, message.decode())))
            for options in ({}, {"untuned": 1}):
                session = self.load("roberta", log=log, log_user=5, **options)
                self.hidden(session, [[5] * 8])
                self.assertEqual(len(told), 1, told)
            self.assertEqual(told[0][0], 5)
            self.assertIn(f"'{plan}' is not used: ", told[0][1])


if __name__ == "__main__":
    unittest.main()
