#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""stof tune --compile from the outside: kernels for a GPU that need not be there, by processes that end with it.

usage: compile_test.py STOF
"""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

STOF = sys.argv.pop(1)
DONE = r"^(compiling \[[# ]{40}\] \d+/\d+  [\d.]+ s\n)*$"  # all that is said where all is well, and that only where it is slow
WORKER = b"compile-worker"
MISSING = "stof: nothing can be compiled here: NVRTC (libnvrtc.so.13 or .12) is missing\n"


def workers_of(process):
    """Its processes that compile, and no other: the leak sanitizer ends with one of its own, without which it never ends."""
    try:
        tasks = list(Path(f"/proc/{process}/task").iterdir())
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
        return [child for child in children if WORKER in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")]
    except (FileNotFoundError, ProcessLookupError):
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
                workers = workers_of(process.pid) or workers
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
            self.assertEqual(process.returncode, 0, said)
            self.assertRegex(said, DONE)  # nothing is damaged
            self.assertLess(json.loads(counts)["compiled"], json.loads(counts)["kernels"])
        warm, said = self.compile()
        self.assertGreater(warm["kernels"], 3)
        self.assertEqual((warm["compiled"], warm["failed"]), (0, []))
        self.assertRegex(said, DONE)

    def test_kernels_that_could_not_be_compiled_are_named(self):
        """Every process that compiles is killed as soon as it is there: each kernel costs two."""
        with subprocess.Popen(self.command("--json", "-"), env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as process:  # fmt: skip
            while process.poll() is None:
                for worker in workers_of(process.pid):
                    try:
                        os.kill(worker, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                time.sleep(0.001)
            counts, said = process.communicate(timeout=60)
        if said == MISSING:
            self.skipTest("no NVRTC on this machine")
        self.assertEqual(process.returncode, 4, said)
        counts = json.loads(counts)
        self.assertGreater(len(counts["failed"]), 0)
        for kernel in counts["failed"]:
            self.assertRegex(kernel["name"], r"^gemm_f16_\d+x\d+_")
            self.assertEqual(kernel["why"], f"{kernel['name']} is not compiled: the process that compiled it ended by signal 9 (Killed)")
            self.assertIn(f"stof: {kernel['why']}\n", said)
        self.assertTrue(said.endswith(f"stof: {len(counts['failed'])} of {counts['kernels']} kernels could not be compiled\n"), said)

    def test_kernels_that_cannot_be_kept_are_not_compiled(self):
        (self.cache / "stof").mkdir(parents=True)
        (self.cache / "stof/kernels").write_text("a file in the place of the folder")
        done = subprocess.run(self.command(), capture_output=True, text=True, timeout=120, check=False,
                              env=self.environment())  # fmt: skip
        if done.stderr == MISSING:
            self.skipTest("no NVRTC on this machine")
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (2, "", f"stof: kernels cannot be kept in '{self.cache}/stof/kernels': Not a directory; accepted: "
                          "XDG_CACHE_HOME with a folder that can be written\n"))  # fmt: skip

    def test_kernels_that_could_not_be_kept_are_an_error(self):
        """No file may grow, as on a full disk."""

        def no_room():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))

        done = subprocess.run(self.command(), capture_output=True, text=True, timeout=120, check=False,
                              env=self.environment(), preexec_fn=no_room)  # fmt: skip
        if done.stderr == MISSING:
            self.skipTest("no NVRTC on this machine")
        if done.stderr.startswith("OMP: Error #179"):
            self.skipTest("clang's OpenMP does not start without room for a file of its own")
        self.assertEqual(done.returncode, 2, done.stderr)
        count = re.match(r"(\d+) kernels, \1 of them compiled now, 0 failed; ", done.stdout)[1]
        self.assertIn("stof: compiler: kernel cache: ", done.stderr)
        self.assertTrue(done.stderr.endswith(f"\nstof: {count} of {count} kernels are not in the cache, "
                                             f"'{self.cache}/stof/kernels': compiled, they could not be kept\n"), done.stderr)  # fmt: skip

    def test_errors(self):
        command = [STOF, "tune", "--random", "gpt2", "--device", "cpu", "--compilers", "-1"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=self.environment())
        self.assertEqual((done.returncode, done.stderr), (2, "stof: --compilers -1; accepted: 0 (all cores but one) to 1024\n"))

    def test_searches_that_compile_nothing(self):
        for arguments, code, message in (
            (("--device", "cpu"), 2, "--compile with --device cpu, for which nothing is compiled; accepted: cuda, cuda:N, cuda:h200, cuda:h100"),
            (("--device", "cuda:h200"), 2, "--compile with --dtype f32, whose matmuls are all left to cuBLASLt; accepted: f16, bf16"),
            (("--device", "cuda:a100", "--dtype", "f16"), 3, "--compile: matmuls of NVIDIA A100 (described) are all left to cuBLASLt; "
             "kernels are compiled for compute capability 9.0, as of cuda:h200, cuda:h100"),
        ):  # fmt: skip
            command = [STOF, "tune", "--compile", "--random", "bert-base", *arguments]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=self.environment())
            if done.stderr != MISSING:
                self.assertEqual((done.returncode, done.stdout, done.stderr), (code, "", f"stof: {message}\n"))


if __name__ == "__main__":
    unittest.main()
