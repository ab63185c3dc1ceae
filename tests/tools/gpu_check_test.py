#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/gpu_check.sh: every job finds tests, what racecheck is given was compiled in front of all checkers, each checker is given the
same tests but for those that need no racecheck, what matters most is said last, and nobody's folder is emptied.

usage: tests/tools/gpu_check_test.py ATTENTION_TESTS RACECHECK_TESTS OPERATIONS_TESTS [unittest's arguments]
"""

import fnmatch
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "tools/gpu_check.sh"
PROGRAMS = {}  # by name


def jobs():
    """Runner, program and filter of each, in order, where there is no GPU and no sanitizer; programs that are not given say nothing."""
    with tempfile.TemporaryDirectory() as folder:
        programs = Path(folder) / "bin"
        programs.mkdir()
        for name, program in PROGRAMS.items():
            (programs / name).symlink_to(program)
        for name in ("cuda_session_tests", "backend_test"):
            (programs / name).write_text("#!/bin/sh\n")
            (programs / name).chmod(0o755)
        shutil.copy(SCRIPT, folder)
        done = subprocess.run(["bash", f"{folder}/gpu_check.sh", "list"], capture_output=True, text=True, check=True)
    return [(line.split(" ", 2) + [""])[:3] for line in done.stdout.splitlines()]


def cases_of(program):
    done = subprocess.run([PROGRAMS[program], "--gtest_list_tests"], capture_output=True, text=True, check=True)
    cases, suite = [], ""
    for line in done.stdout.splitlines():
        word = line.split()[0]
        if line.startswith(" "):
            cases.append(suite + word)
        else:
            suite = word
    return cases


def found(cases, text):
    """As GoogleTest reads a filter."""
    wanted, _, unwanted = text.partition("-")
    matches = lambda case, patterns: any(fnmatch.fnmatchcase(case, pattern) for pattern in patterns.split(":") if pattern)  # noqa: E731
    return [case for case in cases if matches(case, wanted) and not matches(case, unwanted)]


class Jobs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.jobs = jobs()
        cls.cases = {name: cases_of(name) for name in PROGRAMS}

    def given(self, runner, program):
        """Of each of the runner's jobs the cases."""
        return [found(self.cases[program], text) for of, name, text in self.jobs if (of, name) == (runner, program)]

    def test_each_finds_cases(self):
        self.assertGreater(len(self.jobs), 1000)
        for runner, program, text in (job for job in self.jobs if job[1] in PROGRAMS):
            self.assertTrue(found(self.cases[program], text), f"{runner} {program} {text}")

    def test_racecheck_is_given_what_is_compiled(self):
        checkers = next(i for i, job in enumerate(self.jobs) if job[0].endswith("check"))
        self.assertTrue(all(job[:2] == ["test", "racecheck_tests"] for job in self.jobs[:checkers]))
        self.assertEqual(sorted(sum(self.given("test", "racecheck_tests"), [])), sorted(sum(self.given("racecheck", "racecheck_tests"), [])))

    def test_every_checker_has_the_same_tests_once(self):
        raced = sorted(sum(self.given("racecheck", "racecheck_tests"), []))
        self.assertIn("Cuda/EveryPlan.EqualsTheDefinitionWhereKeysAreSplit/d64_bf16", raced)
        self.assertIn("TableOnCuda.IsPlannedAgainByEveryReplayOfAGraph", raced)
        self.assertLessEqual(set(found(self.cases["racecheck_tests"], "Cuda/Decode.*d64*:Cuda/DeviceLengthsCall.*")), set(raced))
        self.assertEqual(len(raced), len(set(raced)))
        for tool in ("memcheck", "initcheck", "synccheck"):
            self.assertEqual(sorted(sum(self.given(tool, "attention_tests"), [])), raced, tool)

    def test_racecheck_has_short_jobs(self):
        for cases in self.given("racecheck", "operations_tests"):
            self.assertEqual(len(cases), 1)
        for cases in self.given("racecheck", "racecheck_tests"):
            decode = [case for case in cases if case.startswith("Cuda/Decode.")]
            self.assertIn(len(decode), (0, 1))

    def test_racecheck_of_operations_is_of_what_shares_memory(self):
        raced, others = sum(self.given("racecheck", "operations_tests"), []), sum(self.given("memcheck", "operations_tests"), [])
        self.assertLess(set(raced), set(others))
        apart = "*CopyRows*:*HeadNorms*:*Matmul.*:*RowOperationsOf.ManyRowsAreNormalisedAsFewAre*:*NoRowsAreNothing*:*TurnedHeadsOf*"
        self.assertEqual(sorted(set(others) - set(raced)), sorted(found(others, apart)))


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

    def test_what_matters_most_is_said_last(self):
        self.logs.rmdir()
        names = ["Passes", "AlsoPasses", "IsSkipped", "Fails"]
        program = self.folder / "bin/cuda_session_tests"
        program.write_text("#!/bin/sh\ncase \"$*\" in\n"
                           + "*list_tests*) printf 'Running main() from x\\nA.\\n  Passes\\n  AlsoPasses\\nB/Suite.\\n  IsSkipped\\n  Fails\\n' ;;\n"
                           + "*Skipped*) echo '[  SKIPPED ] 1 test' ;;\n*Fails*) echo 'x.cpp:1: Failure' && exit 1 ;;\nesac\n")  # fmt: skip
        program.chmod(0o755)
        done = self.check("cuda_session_tests")
        self.assertEqual(done.returncode, 1)
        lines = done.stdout.splitlines()
        self.assertRegex(lines[-1], r"^== cases: +1 FAIL +2 pass +1 skip $")
        self.assertRegex(lines[-2], r"^FAIL +\d+ ms  test cuda_session_tests B/Suite.Fails")
        self.assertIn("x.cpp:1: Failure", lines[:-2])
        table = (self.logs / "table.txt").read_text()
        self.assertTrue(all(name in table for name in names))
        summary = (self.logs / "summary.txt").read_text().splitlines()
        self.assertRegex(summary[1], r"^cuda_session_tests: A 2, B/Suite 0 \(1 skipped, 1 failed\); \d+ s$")
        self.assertEqual([line[:4] for line in summary[2:]], ["no c", "FAIL"])

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
    PROGRAMS = {name: sys.argv.pop(1) for name in ("attention_tests", "racecheck_tests", "operations_tests")}
    unittest.main()
