#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cmake --install, then find_package(stof) from a project that knows nothing but the prefix.

usage: package_test.py CMAKE BUILD_FOLDER CONSUMER [CONFIGURE ARGUMENTS...]
"""

import os
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
        self.assertLessEqual({"include/stof/stof.h", "include/stof/stof_session.h", "include/stof/attention.h", "bin/stof"}, installed)
        for path in self.prefix.rglob("*.cmake"):
            self.assertNotIn(str(Path(BUILD).parent.parent), path.read_text(encoding="utf-8"))
        build = self.folder / "build"
        run(CMAKE, "-S", CONSUMER, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}", *CONFIGURE)
        run(CMAKE, "--build", build)
        self.assertEqual(run(build / "from_cxx").stdout, "stof::stof works\n")
        self.assertEqual(run(build / "from_c").stdout, "stof::c 0.1.0: causal & window(256)\n")

    @unittest.skipIf(any("sanitize" in given for given in CONFIGURE), "Python itself is not sanitized")
    def test_python_finds_the_library(self):
        (package,) = self.prefix.glob("**/python/stof")
        program = "import stof; print(stof.Mask.where(lambda b, h, q, k: q >= k), stof.library.library().library._name)"
        environment = {name: value for name, value in os.environ.items() if name != "STOF_LIBRARY"} | {"PYTHONPATH": str(package.parent)}
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False, env=environment)
        self.assertEqual((done.stdout, done.stderr), (f"where(q >= k) {package.parents[1] / 'libstof.so'}\n", ""))

    def configure(self, languages, find_package, *more):
        """What a project of these languages is told, on one line, and whether it may go on."""
        source = Path(tempfile.mkdtemp(dir=self.folder))
        says = 'message(STATUS "found ${stof_FOUND} c ${stof_c_FOUND} cxx ${stof_cxx_FOUND}: ${stof_cxx_NOT_FOUND_MESSAGE}")'
        (source / "CMakeLists.txt").write_text(
            f"cmake_minimum_required(VERSION 3.25)\nproject(p {languages})\nfind_package(stof {find_package})\n{says}\n",
            encoding="utf-8")  # fmt: skip
        done = run(CMAKE, "-S", source, "-B", source / "b", f"-DCMAKE_PREFIX_PATH={self.prefix}", *CONFIGURE, *more, ok=False)
        return " ".join((done.stdout + done.stderr).split()), done.returncode == 0

    def test_another_component_is_refused(self):
        said, good = self.configure("NONE", "REQUIRED COMPONENTS c rust")
        self.assertFalse(good)
        self.assertIn("stof has no component 'rust' here; accepted: c, cxx", said)

    def test_a_project_in_c_needs_nothing_of_cxx(self):
        said, good = self.configure("C", "0.1 REQUIRED")
        self.assertTrue(good, said)
        self.assertIn("found 1 c TRUE cxx :", said)

    def test_what_cxx_lacks_is_fatal_only_where_it_is_required(self):
        lacks, without_fmt = "stof's component 'cxx' needs what is not here: fmt", "-DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON"
        said, good = self.configure("C CXX", "0.1 COMPONENTS c OPTIONAL_COMPONENTS cxx", without_fmt)
        self.assertTrue(good, said)
        self.assertIn(f"found 1 c TRUE cxx FALSE: {lacks}", said)
        said, good = self.configure("C CXX", "", without_fmt)
        self.assertTrue(good, said)
        self.assertIn(f"found 0 c TRUE cxx FALSE: {lacks}", said)
        said, good = self.configure("C CXX", "REQUIRED", without_fmt)
        self.assertFalse(good)
        self.assertIn(lacks, said)
        said, good = self.configure("C", "REQUIRED COMPONENTS cxx")
        self.assertFalse(good)
        self.assertIn("stof's component 'cxx' needs the language CXX", said)


if __name__ == "__main__":
    unittest.main()
