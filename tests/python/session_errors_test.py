#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What stof.Session says to what it cannot take, word for word.

usage: session_errors_test.py LIBSTOF.SO STOF MODEL    MODEL: all-MiniLM-L6-v2
"""

import math
import os
import subprocess
import sys
import unittest

from models import Models

import stof


class Errors(Models):
    def refused(self, said, work, kind=stof.InvalidArgument):
        with self.assertRaises(kind) as failed:
            work()
        self.assertEqual(str(failed.exception), said)

    def test_a_library_that_cannot_be_loaded(self):
        for named in ("/nowhere/libstof.so", __file__):
            done = subprocess.run([sys.executable, "-c", "import stof; stof.Mask('causal')"], env={**os.environ, "STOF_LIBRARY": named, "PYTHONPATH": os.pathsep.join(sys.path)},
                                  capture_output=True, text=True, check=False)  # fmt: skip
            self.assertRegex(done.stderr.splitlines()[-1], rf"^OSError: STOF_LIBRARY is '{named}': .*; accepted: a libstof.so[.0-9]* that can be loaded$")

    def test_loading(self):
        for options, said in (
            ({"dtype": "f8"}, "dtype 'f8'; accepted: f32, f16, bf16"),
            ({"device": "cpu\0x"}, "device 'cpu\\x00x' has a 0 character; accepted: cpu, cuda, cuda:N, auto, a torch.device"),
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
            (["a", [5]], f"texts[1] of type list, and texts[0] is a str; {accepted}"),
            (["a", "b", None], f"texts[2] of type NoneType, and texts[0] is a str; {accepted}"),
            ([b"ab"], f"texts[0] of type bytes; {accepted}"),
            ([bytearray(b"ab")], f"texts[0] of type bytearray; {accepted}"),
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
        for wrong in (-1, 800):
            self.refused(f"token 1 has id {wrong}; accepted: 0 to 799", lambda wrong=wrong: session.decode([5, wrong]))
        self.refused("prompt of type int; accepted: a list of token ids", lambda: session.stream(5))
        self.refused("most = 0; accepted: 1 or more", lambda: session.tokenize(["a"], most=0))
        self.refused("text 0 has 201 tokens; accepted: 1 to 200", lambda: session.run([[5] * 201]))

    def test_options(self):
        session = self.load("llama", logits=True)
        for options, said in (
            ({"pooling": "sum"}, "pooling 'sum'; accepted: none, cls, mean, max, last"),
            ({"batch": 0}, "batch = 0; accepted: 1 or more"),
            ({"batch": "a"}, "batch is 'a', of type str; accepted: an integer"),
            ({"pooling": "mean"}, "logits are not pooled; accepted: those of the last token (last), of every one (none), or a session without logits, for vectors"),
        ):
            self.refused(said, lambda: session.embed(["a"], **options))
        for options, said in (
            ({"tokens": 0}, "tokens = 0; accepted: 1 or more"),
            ({"batch": 0}, "batch = 0; accepted: 1 or more"),
            ({"temperature": -1}, "temperature = -1; accepted: 0 or more"),
            ({"temperature": "hot"}, "temperature is 'hot', of type str; accepted: a number"),
            ({"temperature": math.nan}, "temperature = nan; accepted: a finite number"),
            ({"temperature": math.inf}, "temperature = inf; accepted: a finite number"),
            ({"temperature": 10**400}, "temperature: int too large to convert to float; accepted: a finite number"),
            ({"top_k": -1}, "top_k = -1; accepted: 0 or more"),
            ({"top_p": 0}, "top_p = 0; accepted: above 0, up to 1"),
            ({"top_p": 1.5}, "top_p = 1.5; accepted: above 0, up to 1"),
            ({"seed": -1}, f"seed = -1; accepted: 0 to {2**64 - 1}"),
            ({"ends": 5}, "ends of type int; accepted: a list of token ids"),
            ({"ends": [800]}, "a text is to end behind token 800; accepted: 0 to 799"),
        ):
            self.refused(said, lambda: session.generate(["a"], **options))
            if "800" not in said:  # of the vocabulary, which is said when the call begins
                self.refused(said, lambda: session.stream("a", **options))  # before anything is read
        calls = session.statistics["calls"]
        self.refused("token of type int; accepted: a function", lambda: session.generate(["a"], token=5))
        self.refused("token of type bytes; accepted: a function", lambda: session.generate([], token=b""))
        self.assertEqual(session.statistics["calls"], calls)
        self.refused("ids of type bytearray; accepted: a list of token ids", lambda: session.decode(bytearray(b"ab")))
        self.refused("prompts[0] has the lone surrogate '\\ud800' at 1; accepted: text of Unicode", lambda: session.stream("b\ud800"))
        with self.assertRaises(TypeError):
            session.stream("a", most=3)
        self.refused("this session gives hidden states; accepted for generating: a decoder's, loaded with logits=True", lambda: self.load("llama").generate(["a"]))
        with self.assertRaisesRegex(stof.InvalidArgument, r"^text 1 has \d+ tokens; accepted without truncation: at most 199$"):
            session.generate(["a", "masks " * 300])
        with self.assertWarnsRegex(UserWarning, "^1 of 2 prompts cut to 199 tokens$") as warned:
            cut, _ = session.generate(["masks " * 300, "a"], ends=[], truncate=["yes"], token=lambda number, piece: None)
        self.assertEqual(warned.filename, __file__)
        self.assertEqual(cut, session.decode(session.generate(session.tokenize(["masks " * 300], most=199), ends=[])[0]))


if __name__ == "__main__":
    unittest.main()
