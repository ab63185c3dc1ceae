#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Texts that go on by the C API: as transformers continues them, as the whole text is scored at once, and as the program prints
them; told of token by token, and stopped.

usage: generate_test.py LIBSTOF.SO STOF cpu|cuda    exit status 77 where the device is not there
"""

import ctypes as c
import json
import random
import threading
import unittest
from pathlib import Path

import c_library
from c_library import POOLINGS, STOP_ALL, STOP_NOTHING, STOP_TEXT
from models import DECODERS, DEVICE, FAMILIES, STOF, Sessions, program, reference, rows_of, texts_of

C = STOF.library
LAST = POOLINGS.index("last")
PROMPTS = [b"The bread rises", b"x", b"A storm is coming; don't leave the harbour."]


def on_token(work):
    """Of what takes a text's number and an id."""
    return c_library.TOKEN(lambda user, text, token: work(text, token))


class Generate(Sessions):
    def test_goes_on_as_transformers_does(self):
        for family in DECODERS:
            with self.subTest(family):
                session, texts = self.load(family, logits=1), c_library.texts(texts_of(family))
                (_, tokens), _, values = reference(family, "generated")
                want = [list(row) for row in rows_of(values, tokens)]
                ids = STOF.tokenize(session, texts)[0]
                for given, batch in ((texts, 0), (texts, 3), (c_library.tokens(ids), 4)):
                    self.assertEqual(self.generated(session, given, tokens=tokens, batch=batch), want)

    def test_goes_on_as_if_the_text_were_run_at_once(self):
        mask = STOF.parse("sink(2) | window(5)")
        session = self.load("mistral", logits=1, mask=mask)
        C.stof_mask_destroy(mask)
        random.seed(3)
        prompts = [[random.randrange(3, 700) for _ in range(length)] for length in (20, 1, 33)]
        got = self.generated(session, c_library.tokens(prompts), tokens=6)
        for prompt, made in zip(prompts, got):
            text = list(prompt)
            for _ in range(6):
                (scores,) = self.embedded(session, c_library.tokens([text]), pooling=LAST)[0]
                text.append(max(range(len(scores)), key=scores.__getitem__))
            self.assertEqual(text[len(prompt) :], made)

    def test_chance_is_by_seed_as_in_the_program(self):
        session = self.load("qwen3", logits=1)
        asked = {"tokens": 12, "temperature": 0.9, "top_k": 40, "top_p": 0.95}
        first, again, other = (self.generated(session, c_library.texts(PROMPTS), seed=seed, **asked) for seed in (7, 7, 8))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)
        said = program("generate", "--model", FAMILIES / "qwen3", "--device", DEVICE, "--input", "-", "--tokens", 12, "--temperature", 0.9, "--top-k", 40,
                       "--top-p", 0.95, "--seed", 7, "--go-on", "--json", "-", stdin=b"\n".join(PROMPTS).decode())  # fmt: skip
        self.assertEqual([text["ids"] for text in json.loads(said)["texts"]], first)

    def test_texts_end_behind_the_tokens_that_are_given_and_where_positions_end(self):
        session = self.load("llama", logits=1)
        ids = STOF.tokenize(session, c_library.texts(PROMPTS))[0]
        whole = self.generated(session, c_library.tokens(ids), tokens=20)
        ends = [made[4] for made in whole]
        got = self.generated(session, c_library.tokens(ids), ends=ends, tokens=20)
        for made, all_of in zip(got, whole):
            first = next(i for i, token in enumerate(all_of) if token in ends)
            self.assertEqual(made, all_of[: first + 1])
        full = self.generated(session, c_library.tokens([[5] * 199, [5] * 190]), tokens=50)
        self.assertEqual(list(map(len, full)), [1, 10])
        (by_default,) = self.generated(session, c_library.texts([b"x"]), ends=None)
        self.assertEqual(by_default, self.generated(session, c_library.texts([b"x"]), ends=[2])[0])  # eos_token_id of its config.json
        self.assertTrue(len(by_default) == 128 or by_default[-1] == 2)

    def test_each_token_is_told_of_by_the_thread_that_called(self):
        session, told, threads = self.load("qwen2", logits=1), {}, set()

        def hear(text, token):
            told.setdefault(text, []).append(token)
            threads.add(threading.get_ident())
            return STOP_NOTHING

        got = self.generated(session, c_library.texts(PROMPTS), tokens=5, batch=2, token=on_token(hear))
        self.assertEqual([told[text] for text in range(3)], got)
        self.assertEqual(threads, {threading.get_ident()})

    def test_the_user_pointer_comes_back(self):
        session, came = self.load("qwen2", logits=1), []
        hear = c_library.TOKEN(lambda user, text, token: came.append(user) or 0)
        self.generated(session, c_library.texts(PROMPTS[:1]), tokens=2, token=hear, user=77)
        self.assertEqual(came, [77, 77])

    def test_a_text_is_ended_and_the_others_go_on(self):
        session, texts = self.load("gpt2", logits=1), c_library.texts(PROMPTS)
        whole, seen = self.generated(session, texts, tokens=7), [0, 0, 0]

        def hear(text, token):
            seen[text] += 1
            return STOP_TEXT if seen[text] == 2 * text + 1 else STOP_NOTHING

        got = self.generated(session, texts, tokens=7, token=on_token(hear))
        self.assertEqual(got, [whole[text][: 2 * text + 1] for text in range(3)])

    def test_a_call_is_ended_and_the_session_is_as_before(self):
        session, texts = self.load("llama", logits=1), c_library.texts(PROMPTS * 2)
        whole = self.generated(session, texts, tokens=7, batch=4)
        held = STOF.statistics(session).held_bytes
        for last in (1, 6, 28, 30):
            heard = []

            def hear(text, token, last=last, heard=heard):
                heard.append((text, token))
                return STOP_ALL if len(heard) == last else STOP_NOTHING

            got = self.generated(session, texts, tokens=7, batch=4, token=on_token(hear))
            self.assertEqual(len(heard), last)
            for text, made in enumerate(got):
                self.assertEqual(made, [token for of, token in heard if of == text])
                self.assertEqual(made, whole[text][: len(made)])
            self.assertEqual(self.generated(session, texts, tokens=7, batch=4), whole)
            self.assertEqual(STOF.statistics(session).held_bytes, held)

    def test_who_is_told_may_call_the_session(self):
        session, inner = self.load("qwen3", logits=1), []
        texts = c_library.texts(PROMPTS[:1])
        want = self.generated(session, texts, tokens=3)
        got = self.generated(session, texts, tokens=3, token=on_token(lambda text, token: inner.append(self.generated(session, texts, tokens=3)) or 0))
        self.assertEqual((got, inner), (want, [want] * 3))

    def test_what_is_neither_go_on_nor_stop_is_refused(self):
        session, texts = self.load("qwen3", logits=1), c_library.texts(PROMPTS)
        whole = self.generated(session, texts, tokens=3)
        for wrong in (3, -1):
            with self.assertRaises(c_library.InvalidArgument) as failed:
                self.generated(session, texts, tokens=3, token=on_token(lambda text, token, wrong=wrong: wrong))
            self.assertEqual(failed.exception.text, f"options.token gives {wrong}; accepted: 0..2, a stof_stop")
        self.assertEqual(self.generated(session, texts, tokens=3), whole)

    def test_cut_texts_are_counted(self):
        session, texts = self.load("llama", logits=1), c_library.texts([b"a", b"masks " * 300])
        how = c_library.GenerateOptions(c.sizeof(c_library.GenerateOptions), tokens=4, truncate=1)
        made, truncated = STOF.generate(session, texts, how, 8)
        self.assertEqual((list(map(len, made)), truncated), ([4, 1], 1))
        to = c_library.Generated(c.sizeof(c_library.Generated), truncated=-5)
        STOF.check(C.stof_session_generate_texts(session, texts, how, to))  # asks for the size only
        self.assertEqual((to.needed, to.truncated), (5, 1))
        ids = c_library.tokens([[5], [6]])
        STOF.check(C.stof_session_generate(session, ids, how, to))
        self.assertEqual((to.needed, to.truncated), (8, 0))

    def test_of_no_texts_there_are_offsets_without_room_for_ids(self):
        session = self.load("llama", logits=1)
        for function, none in (("stof_session_generate_texts", c_library.texts([])), ("stof_session_generate", c_library.tokens([]))):
            offsets = (c.c_int32 * 2)(-5, -5)
            to = c_library.Generated(c.sizeof(c_library.Generated), offsets=c.addressof(offsets), needed=-5)
            STOF.check(getattr(C, function)(session, none, None, to))
            self.assertEqual((to.needed, list(offsets)), (0, [0, -5]))
            to.offsets = None
            STOF.check(getattr(C, function)(session, none, None, to))

    def test_streams_say_what_the_program_prints(self):
        for family in ("llama", "mistral", "qwen3"):
            session = self.load(family, logits=1)
            ids = STOF.tokenize(session, c_library.texts(PROMPTS))[0]
            said = program("generate", "--model", FAMILIES / family, "--device", DEVICE, "--input", "-", "--tokens", 20, "--go-on", "--json", "-",
                           stdin=b"\n".join(PROMPTS).decode())  # fmt: skip
            for prompt, want in zip(ids, json.loads(said)["texts"]):
                stream = STOF.text_stream(session, prompt)
                self.addCleanup(C.stof_text_stream_destroy, stream)
                pieces = [STOF.add_to_stream(stream, token) for token in (*want["ids"], 5000, -1)]
                self.assertEqual(pieces[-2:], ["", ""])  # the tokenizer has nothing for them
                self.assertGreater(len(set(pieces)), 3)
                self.assertEqual("".join(pieces) + STOF.finish_stream(stream), want["text"])

    def test_a_stream_outlives_its_session(self):
        session = STOF.load_session(str(FAMILIES / "llama").encode(), device=DEVICE.encode())
        ids = STOF.tokenize(session, c_library.texts([PROMPTS[2]]))[0][0]
        stream = STOF.text_stream(session)
        self.addCleanup(C.stof_text_stream_destroy, stream)
        mapped = lambda: (FAMILIES / "llama").as_posix() in Path("/proc/self/maps").read_text(encoding="utf-8")
        self.assertTrue(mapped() or DEVICE == "cuda")
        C.stof_session_destroy(session)
        self.assertFalse(mapped())  # the stream keeps the tokenizer only
        self.assertEqual("".join([*(STOF.add_to_stream(stream, one) for one in ids), STOF.finish_stream(stream)]), PROMPTS[2].decode())


if __name__ == "__main__":
    unittest.main()
