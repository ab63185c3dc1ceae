#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""stof tune --compile from the outside: kernels for a GPU that need not be there, by processes that end with it.

usage: compile_test.py STOF
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

STOF = sys.argv.pop(1)
MISSING = "stof: nothing can be compiled here: NVRTC (libnvrtc.so.13 or .12) is missing\n"


def children(process):
    try:
        return [int(child) for task in Path(f"/proc/{process}/task").iterdir() for child in (task / "children").read_text().split()]
    except FileNotFoundError:
        return []


def is_alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Compile(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = Path(folder.name) / "cache"

    def command(self, *arguments):
        return [STOF, "tune", "--compile", "--random", "bert-base", "--seq", "13", "--device", "cuda:h200", "--dtype", "f16",
                "--scheme", "001111100110001100", "--compilers", "2", *arguments]  # fmt: skip

    def environment(self):
        return dict(os.environ, XDG_CACHE_HOME=str(self.cache))

    def compile(self):
        done = subprocess.run(self.command("--json", "-"), capture_output=True, text=True, timeout=120, check=False,
                              env=self.environment())  # fmt: skip
        if done.stderr == MISSING:
            self.assertEqual(done.returncode, 3)
            self.skipTest("no NVRTC on this machine")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout), done.stderr

    def test_killed_it_leaves_no_process_and_goes_on_and_a_warm_start_compiles_nothing(self):
        kernels = self.cache / "stof/kernels"
        with subprocess.Popen(self.command(), env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True) as process:  # fmt: skip
            workers = []
            while process.poll() is None and (len(workers) < 2 or not any(kernels.glob("*.kernel"))):
                workers = children(process.pid) or workers
            if process.poll() == 3 and process.stderr.read() == MISSING:
                self.skipTest("no NVRTC on this machine")
            self.assertEqual(len(workers), 2)
            process.send_signal(signal.SIGKILL)
        until = time.monotonic() + 20
        while time.monotonic() < until and any(map(is_alive, workers)):
            time.sleep(0.01)
        self.assertEqual([worker for worker in workers if is_alive(worker)], [])
        # Two at once finish it.
        both = [subprocess.Popen(self.command("--json", "-"), env=self.environment(), stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True) for _ in range(2)]  # fmt: skip
        for process in both:
            counts, said = process.communicate(timeout=120)
            self.assertEqual((process.returncode, said), (0, ""))  # nothing is damaged
            self.assertLess(json.loads(counts)["compiled"], json.loads(counts)["kernels"])
        warm, said = self.compile()
        self.assertGreater(warm["kernels"], 3)
        self.assertEqual((warm["compiled"], said), (0, ""))

    def test_errors(self):
        command = [STOF, "tune", "--random", "gpt2", "--device", "cpu", "--compilers", "-1"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=self.environment())
        self.assertEqual((done.returncode, done.stderr), (2, "stof: --compilers -1; accepted: 0 (all cores but one) to 1024\n"))


if __name__ == "__main__":
    unittest.main()
