#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills the program at random moments and looks at what is on disk: a file is whole or not there, and one that was
there before is the old one or the new one.

usage: killed_test.py STOF
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from array import array
from pathlib import Path

import npy
import small_model

STOF = str(Path(sys.argv.pop(1)).resolve())
KILLS = 12
OLD = b"the file of the run before"


def goes_without_a_name(folder):
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY))
        return True
    except OSError:
        return False


class Killed(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.inputs, self.outputs = Path(folder.name) / "in", Path(folder.name) / "out"
        self.inputs.mkdir()
        self.outputs.mkdir()
        self.random = random.Random(3)

    def start(self, arguments):
        return subprocess.Popen([STOF, *arguments], cwd=self.outputs, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def check(self, arguments, *names):
        """`arguments` write the files `names`, always the same bytes."""
        begin = time.monotonic()
        self.assertEqual(self.start(arguments).wait(), 0)
        span = 1.1 * (time.monotonic() - begin)
        whole = {name: (self.outputs / name).read_bytes() for name in names}
        killed = 0
        for attempt in range(KILLS):
            for file in self.outputs.iterdir():
                file.unlink()
            before = OLD if attempt % 2 else None
            for name in names if before else ():
                (self.outputs / name).write_bytes(before)
            process = self.start(arguments)
            time.sleep(self.random.uniform(0, span))
            process.send_signal(signal.SIGKILL)
            if process.wait() == -signal.SIGKILL:
                killed += 1
            else:
                span *= 0.75  # the first run may have been a slow one: files not in memory yet, a busy machine
            self.look(whole, before)
        self.assertGreater(killed, 0)

    def look(self, whole, before):
        found = {file.name: file.read_bytes() for file in self.outputs.iterdir()}
        for name, content in whole.items():
            self.assertTrue(found.pop(name, None) in (before, content), f"{name} is half-written")
        if goes_without_a_name(self.outputs):
            for name, content in found.items():  # named, and about to be renamed
                self.assertTrue(name.endswith(".part"), name)
                self.assertTrue(content in whole.values(), f"{name} is half-written")

    def test_attention(self):
        shape = (1, 4, 2048, 64)
        values = array("f", (self.random.uniform(-1, 1) for _ in range(4096))) * (4 * 2048 * 64 // 4096)
        for name in "qkv":
            npy.write(self.inputs / f"{name}.npy", shape, values)
        files = [x for name in "qkv" for x in (f"--{name}", str(self.inputs / f"{name}.npy"))]
        self.check(["attention", *files, "--mask", "window(64)", "--device", "cpu", "--out", "out.npy", "--lse", "lse.npy"],
                   "out.npy", "lse.npy")  # fmt: skip

    def test_run(self):
        model = small_model.write(self.inputs / "model")
        texts = self.inputs / "texts"
        texts.write_text("hello a world\n" * 20000)
        self.check(["run", "--model", str(model), "--input", str(texts), "--device", "cpu", "--out", "out.npy"], "out.npy")

    def test_mask(self):
        arguments = ["mask", "causal & window(300)", "--seq", "4096", "--out", "mask.npy", "--png", "mask.png"]
        self.check(arguments, "mask.npy", "mask.png")

    def test_graph(self):
        model = small_model.write(self.inputs / "model")
        self.check(["graph", "--model", str(model), "--dot", "graph.dot", "--json", "graph.json"], "graph.dot", "graph.json")


if __name__ == "__main__":
    unittest.main()
