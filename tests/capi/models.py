# SPDX-License-Identifier: Apache-2.0
"""What tests of sessions are given on their command line, LIBSTOF.SO STOF cpu|cuda: the library, the program to compare with, and
small checkpoints with what transformers computed with them (tests/data/families). Who imports it where the device is not there
ends with exit status 77."""

import ctypes as c
import itertools
import os
import subprocess
import sys
import unittest
from pathlib import Path

import c_library
from memory import open_memory

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/cli"))
import npy  # noqa: E402

DEVICE, PROGRAM, PATH = sys.argv.pop(), sys.argv.pop(), sys.argv.pop()
try:
    open_memory(DEVICE)
except OSError as missing:
    print(f"skipped: no GPU to test on: {missing}")
    sys.exit(77)
STOF = c_library.Stof(PATH)
FAMILIES = ROOT / "tests/data/families"
DECODERS = ("gpt2", "llama", "llama_with_biases", "mistral", "qwen2", "qwen3", "phi3", "phi4", "gemma2", "gemma3")
BOUND = 4e-5  # of a hidden state or a score, as tests/runtime/families_test.cpp has it


def reference(family, what):
    return npy.read(FAMILIES / family / f"{what}.npy")


def texts_of(family):
    """Those that have tokens, in bytes, as the references do."""
    lines = (FAMILIES / "texts.txt").read_text(encoding="utf-8").split("\n")
    return [line.encode() for line, length in zip(lines, reference(family, "lengths")[2]) if length > 0]


def program(*arguments, stdin=""):
    alone = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}  # of a program with sanitizers of its own
    done = subprocess.run([PROGRAM, *map(str, arguments)], input=stdin, capture_output=True, text=True, encoding="utf-8", timeout=120, check=True,
                          env=alone)  # fmt: skip
    return done.stdout


class Sessions(unittest.TestCase):
    def load(self, family, **options):
        asked = {"device": DEVICE.encode(), "threads": 1, **options}  # others may keep the cores
        session = STOF.load_session(str(FAMILIES / family).encode(), **asked)
        self.addCleanup(STOF.library.stof_session_destroy, session)
        return session

    def embedded(self, session, given, **options):
        """Rows of what is embedded, and what else was written: sizes are asked for first, and room is exactly what is needed."""
        how = c_library.EmbedOptions(c.sizeof(c_library.EmbedOptions), **options)
        lengths = (c.c_int32 * (given.count + 1))(*[-7] * (given.count + 1))
        to = c_library.Embeddings(c.sizeof(c_library.Embeddings), lengths=c.addressof(lengths))
        STOF.embed(session, given, how, to)
        info = STOF.describe(session)
        asked, columns = (to.rows, to.truncated, list(lengths)), info.columns if options.get("pooling") == 1 else info.pooled_columns
        values = (c.c_float * (to.rows * columns + 1))(*[7.0] * (to.rows * columns + 1))
        to.values, to.capacity = c.addressof(values), to.rows * columns
        STOF.embed(session, given, how, to)
        self.assertEqual((to.rows, to.truncated, list(lengths)), asked)
        self.assertEqual((values[-1], lengths[-1]), (7.0, -7))
        return [values[i * columns : (i + 1) * columns] for i in range(to.rows)], to.truncated, lengths[: given.count]

    def hidden(self, session, lists):
        """Of every token, by one call."""
        columns, rows = STOF.describe(session).columns, sum(map(len, lists))
        values = (c.c_float * (rows * columns + 1))(*[7.0] * (rows * columns + 1))
        STOF.run_session(session, c_library.tokens(lists), c.addressof(values), rows * columns)
        self.assertEqual(values[-1], 7.0)
        return [values[i * columns : (i + 1) * columns] for i in range(rows)]

    def generated(self, session, given, ends=(), most=400, **options):
        """ends: None is the checkpoint's."""
        how = c_library.GenerateOptions(c.sizeof(c_library.GenerateOptions), **options)
        listed = c_library.int32s([*(ends or ()), 0])
        if ends is not None:
            how.ends, how.end_count = c.addressof(listed), len(ends)
        return STOF.generate(session, given, how, most)[0]

    def expect_close(self, got, want, bound=BOUND):
        self.assertEqual(len(got), len(want))
        for row, (a, b) in enumerate(zip(got, want)):
            self.assertEqual(len(a), len(b))
            self.assertLessEqual(max(abs(x - y) for x, y in zip(a, b)), bound, f"row {row}")


def rows_of(values, columns):
    return [values[i : i + columns] for i in range(0, len(values), columns)]


def split(rows, lengths):
    ends = [0, *itertools.accumulate(lengths)]
    return [rows[begin:end] for begin, end in itertools.pairwise(ends)]
