#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the functions of sessions say to bad arguments, word for word; none of them crashes the library, and a session that refused
one is as good as before.

usage: session_errors_test.py LIBSTOF.SO STOF cpu
"""

import ctypes as c
import os
import tempfile
import unittest

import c_library
from c_library import I32, Embeddings, EmbedOptions, Generated, GenerateOptions, SessionInfo, SessionOptions, Statistics, TextBuffer, TokenBuffer
from models import FAMILIES, STOF, Sessions

C = STOF.library
LLAMA = str(FAMILIES / "llama").encode()
MOST = 2**31 - 1


def sized(structure, **given):
    return structure(c.sizeof(structure), **given)


def changed_tokens(lists, first=0, **given):
    """With another first offset, and other fields."""
    found = c_library.tokens(lists)
    c.cast(found.offsets, c.POINTER(c.c_int32))[0] = first
    for name, value in given.items():
        setattr(found, name, value)
    return found


class Errors(Sessions):
    def setUp(self):
        self.session = self.load("llama", logits=1)
        self.of_hidden = self.load("llama")

    def refused(self, message, work, status=2):
        with self.assertRaises(c_library.Failure) as failed:
            work()
        self.assertEqual((failed.exception.status, failed.exception.text), (status, message))

    def refuses(self, message, function, *given, status=2):
        self.refused(message, lambda: STOF.check(getattr(C, function)(*given)), status)

    def test_loading(self):
        out = c.c_void_p(5)
        load = lambda **options: STOF.load_session(LLAMA, **{"device": b"cpu", **options})
        self.refuses("stof_session_load: session is NULL", "stof_session_load", LLAMA, None, None)
        self.refuses("stof_session_load: folder is NULL", "stof_session_load", None, None, out)
        self.assertIsNone(out.value)
        size = c.sizeof(SessionOptions)
        self.refuses(f"stof_session_load: options.struct_size is 8; accepted: {size}", "stof_session_load", LLAMA, SessionOptions(8), out)
        self.refused("stof_session_load: options.dtype is 9; accepted: 0..4, a stof_dtype", lambda: load(dtype=9))
        self.refused("stof_session_load: options.dtype is i32; accepted: f32, f16, bf16", lambda: load(dtype=I32))
        self.refused("no matmul in f16 on the CPU; accepted: f32, bf16", lambda: load(dtype=c_library.F16), status=3)
        self.refused("threads = -1; accepted: 0 (as many as OpenMP would take) to 1024", lambda: load(threads=-1))
        self.refused("unknown device 'tpu'; accepted: auto, cpu, cuda, cuda:N; to plan for: cuda:h200, cuda:h100, cuda:a100", lambda: load(device=b"tpu"))
        self.refused("none: no such folder; a model is a folder with config.json, model.safetensors, and tokenizer.json or vocab.txt",
                     lambda: STOF.load_session(b"none"))  # fmt: skip
        self.refused("no logits of RobertaForMaskedLM; accepted: GPT-2, Llama, Mistral, Qwen2, Qwen3, Phi-3, Gemma",
                     lambda: STOF.load_session(str(FAMILIES / "roberta").encode(), logits=1), status=3)  # fmt: skip
        self.refused("-1 global tokens; accepted: 0 to 200", lambda: load(global_tokens=-1))
        mask = STOF.parse("batch(0: causal, *: all)")
        self.addCleanup(C.stof_mask_destroy, mask)
        self.refused("mask batch(0: causal, *: all): it depends on the batch index; accepted: masks that are the same for every text, "
                     "since texts are regrouped", lambda: load(mask=mask))  # fmt: skip

    def test_a_folder_without_a_tokenizer(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("config.json", "model.safetensors"):
                os.symlink(FAMILIES / "llama" / name, os.path.join(folder, name))
            self.refused(f"{folder}: neither tokenizer.json nor vocab.txt", lambda: STOF.load_session(folder.encode()))

    def test_a_session_that_is_null(self):
        ids = c_library.tokens([[5]])
        for function, given in (
            ("stof_session_describe", (sized(SessionInfo),)),
            ("stof_session_statistics", (sized(Statistics),)),
            ("stof_session_tokenize", (c_library.texts([]), 0, sized(TokenBuffer))),
            ("stof_session_decode", (None, 0, sized(TextBuffer))),
            ("stof_text_stream_create", (None, 0, c.c_void_p())),
            ("stof_session_embed_texts", (c_library.texts([]), None, sized(Embeddings))),
            ("stof_session_embed", (ids, None, sized(Embeddings))),
            ("stof_session_run", (ids, None, 0)),
            ("stof_session_generate_texts", (c_library.texts([]), None, sized(Generated))),
            ("stof_session_generate", (ids, None, sized(Generated))),
        ):
            self.refuses(f"{function}: session is NULL", function, None, *given)
        C.stof_session_destroy(None)
        C.stof_text_stream_destroy(None)

    def test_structures_that_are_missing_or_of_another_size(self):
        texts, ids = c_library.texts([b"a"]), c_library.tokens([[5]])
        for function, before, structure, name in (
            ("stof_session_describe", (), SessionInfo, "info"),
            ("stof_session_statistics", (), Statistics, "statistics"),
            ("stof_session_tokenize", (texts, 0), TokenBuffer, "tokens"),
            ("stof_session_decode", (None, 0), TextBuffer, "text"),
            ("stof_session_embed_texts", (texts, None), Embeddings, "embeddings"),
            ("stof_session_embed", (ids, None), Embeddings, "embeddings"),
            ("stof_session_generate_texts", (texts, None), Generated, "generated"),
            ("stof_session_generate", (ids, None), Generated, "generated"),
        ):
            self.refuses(f"{function}: {name} is NULL", function, self.session, *before, None)
            self.refuses(f"{function}: {name}.struct_size is 3; accepted: {c.sizeof(structure)}", function, self.session, *before, structure(3))
        for function, given, options, to in (
            ("stof_session_embed_texts", texts, EmbedOptions, Embeddings),
            ("stof_session_embed", ids, EmbedOptions, Embeddings),
            ("stof_session_generate_texts", texts, GenerateOptions, Generated),
            ("stof_session_generate", ids, GenerateOptions, Generated),
        ):
            self.refuses(f"{function}: options.struct_size is 0; accepted: {c.sizeof(options)}", function, self.session, given, options(), sized(to))

    def test_texts(self):
        for function, to in (("stof_session_embed_texts", Embeddings), ("stof_session_generate_texts", Generated)):
            call = lambda texts: (function, self.session, texts, None, sized(to))
            self.refuses(f"{function}: texts is NULL", *call(None))
            self.refuses(f"{function}: texts.count is -1; accepted: 0..{MOST - 1}", *call(c_library.Texts(count=-1)))
            self.refuses(f"{function}: texts.data is NULL", *call(c_library.Texts(count=1)))
            self.refuses(f"{function}: texts.data[1] is NULL", *call(c_library.Texts((c.c_char_p * 2)(b"a", None), (c.c_int64 * 2)(1, 0), 2)))
            of_sizes = c_library.texts([b"a", b"b"])
            of_sizes.sizes[1] = -1
            self.refuses(f"{function}: texts.sizes[1] is -1; accepted: 0..{1 << 47}", *call(of_sizes))
            self.refuses(f"{function}: texts.data[1] is not UTF-8 at its byte 2: 0xFF", *call(c_library.texts([b"a", b"ab\xff"])))
            cut = c_library.texts(["aé".encode()])
            cut.sizes[0] = 2
            self.refuses(f"{function}: texts.data[0] is not UTF-8 at its byte 1: 0xC3", *call(cut))

    def test_tokens(self):
        for function, after in (
            ("stof_session_embed", (None, sized(Embeddings))),
            ("stof_session_run", (None, 0)),
            ("stof_session_generate", (None, sized(Generated))),
        ):
            call = lambda tokens: (function, self.session, tokens, *after)
            changed = lambda **given: changed_tokens([[5, 6], [7]], **given)
            self.refuses(f"{function}: tokens is NULL", *call(None))
            self.refuses(f"{function}: tokens.count is -2; accepted: 0..{MOST - 1}", *call(changed(count=-2)))
            self.refuses(f"{function}: tokens.offsets is NULL", *call(changed(offsets=None)))
            self.refuses(f"{function}: tokens.ids is NULL", *call(changed(ids=None)))
            odd = changed()
            odd.ids += 1
            self.refuses(f"{function}: tokens.ids is at {odd.ids:#x}; accepted for i32: a multiple of 4", *call(odd))
            self.refuses(f"{function}: tokens.offsets[0] is 1; accepted: 0", *call(changed_tokens([[5, 6]], first=1)))
            falls = changed_tokens([[5, 6], [7], [8]])
            c.cast(falls.offsets, c.POINTER(c.c_int32))[2] = 1
            self.refuses(f"{function}: tokens.offsets[2] is 1 and the one before it 2; accepted: ascending ones", *call(falls))
            self.refuses("text 1 has 0 tokens; accepted: 1 to 200", *call(c_library.tokens([[5], []])))
            self.refuses("text 1 has 201 tokens; accepted: 1 to 200", *call(c_library.tokens([[5], [5] * 201])))
            self.refuses("text 1: its token 2 has id 800; accepted: 0 to 799", *call(c_library.tokens([[5], [5, 6, 800]])))
            self.refuses("text 0: its token 0 has id -1; accepted: 0 to 799", *call(c_library.tokens([[-1]])))

    def test_tokenizing_and_decoding(self):
        texts, offsets = c_library.texts([b"a mask", b"b"]), (c.c_int32 * 3)()
        ids, _ = STOF.tokenize(self.session, texts)
        count, room = sum(map(len, ids)), (c.c_int32 * 9)(*[-5] * 9)
        to = sized(TokenBuffer, ids=c.addressof(room), capacity=count - 1, offsets=c.addressof(offsets))
        name = "stof_session_tokenize: "
        tokenize = lambda most, to: ("stof_session_tokenize", self.session, texts, most, to)
        self.refuses(f"{name}tokens.capacity is {count - 1}; accepted: {count} or more", *tokenize(0, to))
        self.assertEqual((offsets[2], list(room)), (count, [-5] * 9))
        self.refuses(f"{name}tokens.offsets is NULL", *tokenize(0, sized(TokenBuffer)))
        self.refuses(f"{name}most is -1; accepted: 0 (all tokens) or more", *tokenize(-1, to))
        listed = c_library.int32s(ids[0])
        address, data = c.cast(listed, c.c_void_p), c.create_string_buffer(b"?????")
        decode = lambda ids, count, to: ("stof_session_decode", self.session, ids, count, to)
        small = sized(TextBuffer, data=c.addressof(data), capacity=5)
        self.refuses("stof_session_decode: text.capacity is 5; accepted: 6 or more", *decode(address, len(listed), small))
        self.assertEqual((small.size, data.value), (6, b"?????"))
        self.refuses("stof_session_decode: ids is NULL", *decode(None, 2, small))
        self.refuses(f"stof_session_decode: ids: their count is -1; accepted: 0..{MOST}", *decode(address, -1, small))

    def test_streams(self):
        text, size, none = c.c_void_p(), c.c_int64(), c.c_void_p(5)
        self.refuses("stof_text_stream_create: stream is NULL", "stof_text_stream_create", self.session, None, 0, None)
        self.refuses("stof_text_stream_create: ids is NULL", "stof_text_stream_create", self.session, None, 1, none)
        self.assertIsNone(none.value)
        stream = STOF.text_stream(self.session)
        self.addCleanup(C.stof_text_stream_destroy, stream)
        for function, more in (("stof_text_stream_add", (5,)), ("stof_text_stream_finish", ())):
            self.refuses(f"{function}: stream is NULL", function, None, *more, text, size)
            self.refuses(f"{function}: text is NULL", function, stream, *more, None, size)
            self.refuses(f"{function}: size is NULL", function, stream, *more, text, None)

    def test_embedding(self):
        texts, ids = c_library.texts([b"a mask", b"masks " * 300]), c_library.tokens([[5, 6], [7]])
        for function, given in (("stof_session_embed_texts", texts), ("stof_session_embed", ids)):
            call = lambda to, **options: (function, self.of_hidden, given, sized(EmbedOptions, **options), to)
            self.refuses(f"{function}: options.pooling is 6; accepted: 0..5, a stof_pooling", *call(sized(Embeddings), pooling=6))
            self.refuses(f"{function}: options.pooling is -1; accepted: 0..5, a stof_pooling", *call(sized(Embeddings), pooling=-1))
            self.refuses("batch = -1; accepted: 1 or more", *call(sized(Embeddings), batch=-1))
            values = (c.c_float * 65)(*[7.0] * 65)
            to = sized(Embeddings, values=c.addressof(values), capacity=63)
            self.refuses(f"{function}: embeddings.capacity is 63; accepted for 2 rows of 32: 64 floats or more", *call(to))
            self.assertEqual((to.rows, list(values)), (2, [7.0] * 65))
            to.capacity, to.values = 64, c.addressof(values) + 2
            self.refuses(f"{function}: embeddings.values is at {to.values:#x}; accepted for f32: a multiple of 4", *call(to))
            to.values = c.addressof(values)
            scores = (c.c_float * 1600)()
            for room in ({"values": c.addressof(scores), "capacity": 1600}, {}):  # also where only the size is asked for
                self.refuses("logits are not pooled; accepted: those of the last token (last), of every one (none), or a session without logits, for vectors", function, self.session, given,
                             sized(EmbedOptions, pooling=3), sized(Embeddings, **room))  # fmt: skip
        long = len(STOF.tokenize(self.session, texts)[0][1])
        self.refuses(f"text 1 has {long} tokens; accepted without truncation: at most 200", "stof_session_embed_texts", self.session, texts,
                     sized(EmbedOptions, refuse_long=1), sized(Embeddings))  # fmt: skip
        of_gpt2 = self.load("gpt2")
        self.refuses("text 1 has no tokens; accepted: 1 or more", "stof_session_embed_texts", of_gpt2, c_library.texts([b"a", b""]), None, sized(Embeddings))

    def test_running(self):
        ids, values = c_library.tokens([[5, 6], [7]]), (c.c_float * 97)()
        run = lambda out, capacity: ("stof_session_run", self.of_hidden, ids, out, capacity)
        self.refuses("stof_session_run: capacity is 95; accepted for 3 rows of 32: 96 floats or more", *run(values, 95))
        self.refuses("stof_session_run: out is NULL", *run(None, 96))
        odd = c.addressof(values) + 1
        self.refuses(f"stof_session_run: out is at {odd:#x}; accepted for f32: a multiple of 4", *run(odd, 96))
        self.assertEqual(list(values), [0.0] * 97)

    def test_generating(self):
        texts, ids = c_library.texts([b"a mask", b"b"]), c_library.tokens([[5, 6], [7]])
        room, offsets = (c.c_int32 * 8)(*[-5] * 8), (c.c_int32 * 3)()
        for function, given in (("stof_session_generate_texts", texts), ("stof_session_generate", ids)):
            call = lambda to, **options: (function, self.session, given, sized(GenerateOptions, **options), to)
            to = lambda **more: sized(Generated, **{"ids": c.addressof(room), "capacity": 8, "offsets": c.addressof(offsets), **more})
            self.refuses("this session gives hidden states; accepted for generating: a decoder's, loaded with logits", function, self.of_hidden, given, None, to())
            for options, message in (
                ({"tokens": -1}, "tokens = -1; accepted: 1 or more"),
                ({"batch": -1}, "batch = -1; accepted: 1 or more"),
                ({"temperature": -0.5}, "temperature = -0.5; accepted: 0 or more"),
                ({"top_k": -1}, "top_k = -1; accepted: 0 (all) or more"),
                ({"top_p": 1.5}, "top_p = 1.5; accepted: above 0, up to 1"),
                ({"end_count": 1}, f"{function}: options.ends is NULL"),
                ({"end_count": -1}, f"{function}: options.ends: their count is -1; accepted: 0..{MOST}"),
            ):
                self.refuses(message, *call(to(), **options))
            end = c_library.int32s([800])
            self.refuses("a text is to end behind token 800; accepted: 0 to 799", *call(to(), tokens=4, ends=c.addressof(end), end_count=1))
            small = to(capacity=7)
            self.refuses(f"{function}: generated.capacity is 7; accepted: 8 or more", *call(small, tokens=4))
            self.assertEqual((small.needed, list(room)), (8, [-5] * 8))
            self.refuses(f"{function}: generated.offsets is NULL", *call(to(offsets=None), tokens=4))
            odd = to(ids=c.addressof(room) + 2)
            self.refuses(f"{function}: generated.ids is at {odd.ids:#x}; accepted for i32: a multiple of 4", *call(odd, tokens=4))
        self.refuses("text 1 has 200 tokens, and no room for one more; accepted: at most 199", "stof_session_generate", self.session,
                     c_library.tokens([[5], [5] * 200]), None, to())  # fmt: skip
        long = c_library.texts([b"a", b"masks " * 300])
        count = len(STOF.tokenize(self.session, long)[0][1])
        self.refuses(f"text 1 has {count} tokens; accepted without truncation: at most 199", "stof_session_generate_texts", self.session, long, None, to())
        self.assertEqual(list(map(len, self.generated(self.session, long, tokens=4, truncate=1))), [4, 1])
        mask = STOF.parse("bigbird(4,1,2,1,9)")
        self.addCleanup(C.stof_mask_destroy, mask)
        self.refused("the mask bigbird(4,1,2,1,9) & causal is another one for each length, and keys that are kept are of the lengths before; "
                     "accepted for going on: masks that do not depend on length",
                     lambda: self.generated(self.load("llama", logits=1, mask=mask), ids, tokens=3), status=3)  # fmt: skip


if __name__ == "__main__":
    unittest.main()
