#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/gpu_check.sh: what racecheck is given was compiled in front of all checkers, each checker is given the same tests, and
nobody's folder is emptied."""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "tools/gpu_check.sh"


def jobs():
    """Runner, program and filter of each, in order, in a package whose programs say nothing."""
    with tempfile.TemporaryDirectory() as folder:
        programs = Path(folder) / "bin"
        programs.mkdir()
        for name in ("compute-sanitizer", "attention_tests", "operations_tests", "cuda_session_tests", "backend_test"):
            (programs / name).write_text("#!/bin/sh\n")
            (programs / name).chmod(0o755)
        shutil.copy(SCRIPT, folder)
        done = subprocess.run(["bash", f"{folder}/gpu_check.sh", "list"], capture_output=True, text=True, check=True)
    return [line.split(" ", 2) for line in done.stdout.splitlines()]


class Jobs(unittest.TestCase):
    def test_racecheck_is_given_what_is_compiled(self):
        listed = jobs()
        checkers = [i for i, job in enumerate(listed) if job[0].endswith("check")]
        in_front = [job[2] for job in listed[: checkers[0]] if job[:2] == ["test", "racecheck_tests"]]
        given = [job[2] for job in listed if job[:2] == ["racecheck", "racecheck_tests"]]
        self.assertTrue(given)
        self.assertEqual(in_front, given)

    def test_every_checker_has_the_same_tests(self):
        listed = jobs()
        of = {tool: [job[2] for job in listed if job[0] == tool] for tool in ("memcheck", "initcheck", "synccheck", "racecheck")}
        self.assertIn("Cuda/EveryPlan.*WhereKeysAreSplit/d64_bf16", of["racecheck"])
        for tool, tests in of.items():
            self.assertEqual(tests, of["racecheck"], tool)


class Logs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.logs = self.folder / "logs"
        self.logs.mkdir()
        (self.folder / "bin").mkdir()
        (self.folder / "commit").write_text("none")
        shutil.copy(SCRIPT, self.folder)

    def check(self, only="no such case"):
        return subprocess.run(["bash", self.folder / "gpu_check.sh", "1", "1", "0", self.logs, only],
                              capture_output=True, text=True, timeout=60, check=False)  # fmt: skip

    def test_a_filter_that_finds_nothing_fails(self):
        for name in ("attention_tests", "racecheck_tests"):
            (self.folder / "bin" / name).write_text("#!/bin/sh\necho '[==========] 0 tests from 0 test suites ran. (0 ms total)'\n")
            (self.folder / "bin" / name).chmod(0o755)
        self.assertNotEqual(self.check("Cuda/MixedHeads").returncode, 0)
        self.assertIn("FAIL", (self.logs / "summary.txt").read_text())

    def test_files_of_others_are_kept(self):
        for name, text in (("thesis.txt", "all of it"), ("summary.txt", "of the year")):
            file = self.logs / name
            file.write_text(text)
            done = self.check()
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"gpu_check: '{self.logs}' has files, and none of them is a summary.txt", done.stderr)
            self.assertEqual(file.read_text(), text)
            file.unlink()

    def test_an_empty_folder_and_its_own_are_used(self):
        for _ in range(2):
            self.assertNotIn("has files", self.check().stderr)
            self.assertTrue((self.logs / "summary.txt").read_text().startswith("# tools/gpu_check.sh: "))
            (self.logs / "old.log").touch()
        self.check()
        self.assertFalse((self.logs / "old.log").exists())


if __name__ == "__main__":
    unittest.main()
