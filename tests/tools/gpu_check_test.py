#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/gpu_check.sh: what racecheck is given was compiled in front of all checkers, and each checker is given the same tests."""

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


if __name__ == "__main__":
    unittest.main()
