#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makefile: `make help` lists every target that a person may ask for; what `make bench-cpu` fetches is whole."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Makefile(unittest.TestCase):
    def test_help_lists_every_target(self):
        phony = re.search(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)[1].split()
        said = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        self.assertCountEqual(re.findall(r"^  make (\S+) +\S", said, re.MULTILINE), phony)

    def test_an_interrupted_installation_of_peers_is_begun_again(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "bench/peers").mkdir(parents=True)
            (folder / "bin").mkdir()
            shutil.copy(ROOT / "bench/peers/install.sh", folder / "bench/peers")
            python, venv = folder / "bin/python3", folder / ".cache/peers/venv"
            (venv / "bin").mkdir(parents=True)
            (venv / "bin/python").touch(mode=0o755)
            (venv / "half").touch()

            def install():
                environment = os.environ | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
                return subprocess.run([folder / "bench/peers/install.sh"], env=environment, capture_output=True, text=True,
                                      check=False)  # fmt: skip

            python.write_text("#!/bin/sh\nexit 1\n")
            python.chmod(0o755)
            done = install()
            self.assertEqual(done.returncode, 1)
            self.assertIn("Debian has that in python3-venv", done.stderr)
            self.assertFalse(venv.exists())
            python.write_text('#!/bin/sh\nmkdir -p "$3/bin" && printf "#!/bin/sh\\n" | tee "$3/bin/python" >"$3/bin/pip" && '
                              'chmod +x "$3/bin/"*\n')  # fmt: skip
            self.assertEqual(install().returncode, 0)
            self.assertTrue((venv / "complete").exists())
            self.assertEqual(install().stderr, "", "nothing is left to do")


if __name__ == "__main__":
    unittest.main()
