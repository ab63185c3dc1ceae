#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cmake --install, then find_package(stof) from a project that knows nothing but the prefix.

usage: package_test.py CMAKE BUILD_FOLDER CONSUMER [CONFIGURE ARGUMENTS...]
"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CMAKE, BUILD, CONSUMER, *CONFIGURE = sys.argv[1:]
del sys.argv[1:]


def run(*command, ok=True):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=240, check=False)
    if ok and done.returncode != 0:
        raise AssertionError(f"{command} gives {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


class Package(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.prefix = self.folder / "prefix"
        run(CMAKE, "--install", BUILD, "--prefix", self.prefix)

    def test_a_consumer_builds_and_runs(self):
        installed = {path.relative_to(self.prefix).as_posix() for path in self.prefix.rglob("*")}
        self.assertLessEqual({"include/stof/stof.h", "include/stof/attention.h", "bin/stof"}, installed)
        for path in self.prefix.rglob("*.cmake"):
            self.assertNotIn(str(Path(BUILD).parent.parent), path.read_text(encoding="utf-8"))
        build = self.folder / "build"
        run(CMAKE, "-S", CONSUMER, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}", *CONFIGURE)
        run(CMAKE, "--build", build)
        self.assertEqual(run(build / "from_cxx").stdout, "stof::stof works\n")
        self.assertEqual(run(build / "from_c").stdout, "stof::c 0.1.0: causal & window(256)\n")

    def test_another_component_is_refused(self):
        (self.folder / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(p NONE)\nfind_package(stof REQUIRED COMPONENTS c rust)\n",
            encoding="utf-8")  # fmt: skip
        done = run(CMAKE, "-S", self.folder, "-B", self.folder / "b", f"-DCMAKE_PREFIX_PATH={self.prefix}", ok=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("stof has no component 'rust' here; accepted: c, cxx", " ".join(done.stderr.split()))


if __name__ == "__main__":
    unittest.main()
