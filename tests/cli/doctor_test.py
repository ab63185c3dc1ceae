#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""stof doctor from the outside: keys, exit codes, and where the cache folder is.

usage: doctor_test.py STOF
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

STOF = sys.argv.pop(1)


def stof(*arguments, **environment):
    done = {key: value for key, value in {**os.environ, **environment}.items() if value is not None}
    return subprocess.run([STOF, *arguments], env=done, capture_output=True, text=True, timeout=60, check=False)


def report(**environment):
    return json.loads(stof("doctor", "--json", "-", **environment).stdout)


class Doctor(unittest.TestCase):
    def test_json_has_the_documented_keys(self):
        found = report()
        self.assertEqual(list(found), ["version", "cpu", "gpu", "cache", "calibration", "missing"])
        self.assertEqual(
            list(found["cpu"]),
            ["name", "cores", "hardware_threads", "threads", "thread_waiting", "instruction_sets", "bf16_dot", "bf16_matrix",
             "memory_bytes", "available_bytes"])  # fmt: skip
        self.assertEqual(list(found["gpu"]), ["devices", "driver", "cuda", "nvrtc", "cublaslt"])
        self.assertEqual(list(found["cache"]), ["folder", "writable"])
        for item in found["missing"]:
            self.assertEqual(list(item), ["what", "effect", "remedy"])

    def test_counts_agree_with_the_system(self):
        cpu = report()["cpu"]
        self.assertEqual(cpu["hardware_threads"], len(os.sched_getaffinity(0)))
        self.assertEqual(cpu["memory_bytes"], os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        self.assertEqual(report(OMP_NUM_THREADS="3")["cpu"]["threads"], 3)

    def test_threads_spin_for_a_moment_unless_told_otherwise(self):
        def waiting(**environment):
            return report(**{"GOMP_SPINCOUNT": None, "OMP_WAIT_POLICY": None, **environment})["cpu"]["thread_waiting"]

        self.assertEqual(waiting(), "GOMP_SPINCOUNT=1000")
        self.assertEqual(waiting(GOMP_SPINCOUNT="7"), "GOMP_SPINCOUNT=7")
        self.assertEqual(waiting(OMP_WAIT_POLICY="passive"), "OMP_WAIT_POLICY=passive")

    def test_starting_again_keeps_the_process_and_its_name(self):
        environment = {key: value for key, value in os.environ.items() if key not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
        with subprocess.Popen(["another-name", "graph"], executable=STOF, env=environment, stderr=subprocess.PIPE) as started:
            self.assertIn(b"stof: ", started.stderr.read())
            self.assertEqual(os.waitpid(started.pid, 0)[0], started.pid)
            started.returncode = 2

    def test_json_into_a_file_leaves_the_text_on_stdout(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "report.json")
            done = stof("doctor", "--json", str(file))
            self.assertEqual(done.returncode, 0)
            self.assertIn("instruction sets", done.stdout)
            self.assertEqual(list(json.loads(file.read_text())), list(report()))

    def test_cache_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(report(XDG_CACHE_HOME=folder)["cache"], {"folder": f"{folder}/stof", "writable": True})
            self.assertEqual(
                report(XDG_CACHE_HOME="relative", HOME=folder)["cache"],
                {"folder": f"{folder}/.cache/stof", "writable": True},
            )
            self.assertEqual(list(Path(folder).iterdir()), [], "the doctor changes nothing")
            self.assertIn({"what": "absolute path in XDG_CACHE_HOME, which is 'relative'",
                           "effect": f"it is ignored; the cache folder is {folder}/.cache/stof",
                           "remedy": "name an absolute path, or unset it"}, report(XDG_CACHE_HOME="relative", HOME=folder)["missing"])  # fmt: skip
            self.assertEqual(report(XDG_CACHE_HOME="/proc")["cache"], {"folder": "/proc/stof", "writable": False})
            file = Path(folder, "file")
            file.touch()
            found = report(XDG_CACHE_HOME=str(file))
            self.assertFalse(found["cache"]["writable"])
            self.assertIn("cache folder", [item["what"] for item in found["missing"]])

    def test_a_damaged_calibration(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "stof/cpu-attention.json")
            file.parent.mkdir()
            file.write_text("{")
            found = report(XDG_CACHE_HOME=folder)
            self.assertTrue(found["calibration"]["ignored"])
            [item] = [item for item in found["missing"] if "calibration" in item["what"]]
            self.assertRegex(item["what"], rf"^calibration that can be used \(built in: {file} is no calibration of format \d+; "
                                           r"`stof calibrate` writes one\)$")  # fmt: skip
            self.assertEqual(item["effect"], "kernels are chosen by the built-in costs")

    def test_without_a_home_the_cache_folder_is_ours_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            nowhere = {"XDG_CACHE_HOME": None, "HOME": None, "TMPDIR": folder}
            cache = Path(folder, f"stof-{os.geteuid()}")
            self.assertEqual(report(**nowhere)["cache"], {"folder": str(cache), "writable": True})
            self.assertEqual(list(Path(folder).iterdir()), [], "the doctor changes nothing")
            self.assertEqual(stof("plans", "list", **nowhere).returncode, 0)
            self.assertEqual(cache.stat().st_mode & 0o777, 0o700, "made for what is to be kept")
            self.assertEqual(report(**nowhere)["cache"], {"folder": str(cache), "writable": True})
            (cache / "cpu-attention.json").write_text("{}")
            self.assertTrue(report(**nowhere)["calibration"]["ignored"], "it is looked at")

            def refused():
                found = report(**nowhere)
                self.assertEqual(found["cache"], {"folder": f"/dev/null/{cache.name}", "writable": False})
                self.assertFalse(found["calibration"]["ignored"], "it is not looked at")
                self.assertIn(f"cache folder: '{cache}' is no folder that this user alone can write",
                              [item["what"] for item in found["missing"]])  # fmt: skip

            cache.chmod(0o777)
            refused()
            cache.chmod(0o700)
            cache.rename(cache.with_name("elsewhere"))
            cache.symlink_to("elsewhere")
            refused()
            cache.unlink()
            cache.touch()
            refused()

    def test_errors(self):
        done = stof("doctor", "--json", "/nowhere/report.json")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual(
            done.stderr,
            "stof: cannot write '/nowhere/report.json': No such file or directory\n",
        )
        done = stof("doctor", "--bogus")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(
            done.stderr, "stof: The following argument was not expected: --bogus; --help lists what is accepted\n"
        )

    def test_version_and_help(self):
        self.assertRegex(stof("--version").stdout, r"^stof \d+\.\d+\.\d+\n$")
        self.assertEqual(stof("--help").returncode, 0)
        self.assertEqual(stof().returncode, 2)


if __name__ == "__main__":
    unittest.main()
