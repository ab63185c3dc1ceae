#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The wheel, installed into a folder of its own: it computes, with the libraries that it brought.

usage: wheel_test.py BUILD_FOLDER    exit status 77 where there is no pip
"""

import importlib.util
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT, BUILD = Path(__file__).resolve().parents[2], sys.argv.pop(1)
LLAMA = ROOT / "tests/data/families/llama"
sys.path.insert(0, str(ROOT / "tests/cli"))
import npy  # noqa: E402

if importlib.util.find_spec("pip") is None:
    sys.exit(77)

# Of a mask that allows a query its own key alone, the result is the values.
# And what a decoder says behind a text is what transformers computed.
USED = """
import ctypes, stof, sys
kept, arrays = [], []
for values in ([1.0] * 16, [2.0] * 16, [float(i) for i in range(16)], [0.0] * 16):
    kept.append((ctypes.c_float * 16)(*values))
    arrays.append(type("Array", (), {"__array_interface__": {"shape": (1, 1, 2, 8), "typestr": "<f4", "version": 3,
                                                               "data": (ctypes.addressof(kept[-1]), False)}}))
stof.attention(*arrays[:3], "window(0)", out=arrays[3])
assert list(kept[3]) == [float(i) for i in range(16)], list(kept[3])
session = stof.Session(sys.argv[1], "cpu", logits=True)
made = session.generate(["A storm is coming; don't leave the harbour."], len(sys.argv) - 2, ends=[], token=lambda *of_token: kept.append(of_token))
assert session.generate(session.tokenize(["A storm is coming; don't leave the harbour."]), len(sys.argv) - 2, ends=[]) == [list(map(int, sys.argv[2:]))]
assert made == ["".join(piece for _, piece in kept[4:])], (made, kept[4:])
print(stof.__file__, *sorted({line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}), sep="\\n")
"""


class Wheel(unittest.TestCase):
    def test_installed(self):
        with tempfile.TemporaryDirectory() as folder:
            made = subprocess.run([sys.executable, ROOT / "tools/wheel.py", BUILD, folder], capture_output=True, text=True, check=True)
            wheel = Path(made.stdout.strip())
            self.assertRegex(wheel.name, r"^stof-\d+\.\d+\.\d+-py3-none-manylinux_2_\d+_\w+\.whl$")
            again = subprocess.run([sys.executable, ROOT / "tools/wheel.py", BUILD, folder + "/again"], capture_output=True, text=True, check=True)
            self.assertEqual(Path(again.stdout.strip()).read_bytes(), wheel.read_bytes())
            installed = Path(folder) / "installed"
            subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check",
                            "--root-user-action=ignore", "--target", installed, wheel], check=True)  # fmt: skip
            (_, count), _, ids = npy.read(LLAMA / "generated.npy")
            used = subprocess.run([sys.executable, "-c", USED, LLAMA, *map(str, ids[:count])], capture_output=True, text=True, cwd="/", env={"PYTHONPATH": str(installed)},
                                  check=False)  # fmt: skip
            self.assertEqual(used.returncode, 0, used.stderr)
            package, *loaded = used.stdout.split()
            self.assertEqual(Path(package), installed / "stof/__init__.py")
            self.assertTrue((installed / "stof/py.typed").exists())
            self.assertIn(f"stof-{wheel.name.split('-')[1]}.dist-info", {one.name for one in installed.iterdir()})
            brought = {one.name for one in (installed / "stof/lib").iterdir()}
            self.assertIn("libstof.so", brought)
            of_these = sorted(one for one in loaded if Path(one).name in brought)
            self.assertEqual(of_these, sorted(str(installed / "stof/lib" / name) for name in brought), "none of them is the system's")
            needed = subprocess.run(["readelf", "-d", installed / "stof/lib/libstof.so"], capture_output=True, text=True, check=True).stdout
            asked = set(re.findall(r"NEEDED.*\[(\S+)\]", needed))
            self.assertTrue({name for name in asked if re.match("lib(fmt|hwy|dnnl|gomp|omp)", name)} <= brought, (asked, brought))

    def test_without_a_build(self):
        made = subprocess.run([sys.executable, ROOT / "tools/wheel.py", "/nowhere", "/nowhere"], capture_output=True, text=True, check=False)
        self.assertEqual(made.returncode, 1)
        self.assertTrue(made.stderr.startswith("wheel: no /nowhere/libstof.so; `make build"), made.stderr)


if __name__ == "__main__":
    unittest.main()
