#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What stof does before a subcommand does anything.

usage: main_test.py STOF
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import npy

STOF = sys.argv.pop()
COMMANDS = ["attention", "bench", "calibrate", "demo", "doctor", "generate", "graph", "mask", "plan", "plans", "run",
            "tokenize", "tune"]


def stof(*arguments):
    return subprocess.run([STOF, *arguments], capture_output=True, text=True, timeout=60, check=False)


class Main(unittest.TestCase):
    def test_version(self):
        done = stof("--version")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"^stof \d+\.\d+\.\d+\n$")

    def test_help_lists_every_command_and_every_command_has_help(self):
        done = stof("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(re.findall(r"^  (\w+) {2,}", done.stdout.split("Subcommands:\n")[1], re.MULTILINE), COMMANDS)
        for command in COMMANDS:
            done = stof(command, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn(f"stof {command} [OPTIONS]", done.stdout)

    def test_an_option_without_its_value(self):
        for words, name, value in (("mask all --seq", "--seq", "SIZES"), ("run --text a --model", "--model", "DIR"),
                                   ("mask all --seq 8 --heads", "--heads", "INT")):  # fmt: skip
            done = stof(*words.split())
            self.assertEqual((done.returncode, done.stderr),
                             (2, f"stof: {name} is given without its value, {value}; --help lists what is accepted\n"))  # fmt: skip

    def test_an_option_that_is_given_twice(self):
        for words, name, times in (("mask all --seq 8 --seq 9", "--seq", 2), ("run --model m --text a --text b --text c", "--text", 3),
                                   ("mask all --seq 8 --heads 1 --heads 2", "--heads", 2)):  # fmt: skip
            done = stof(*words.split())
            self.assertEqual((done.returncode, done.stderr),
                             (2, f"stof: {name} is given {times} times; accepted: once; --help lists what is accepted\n"))  # fmt: skip

    def test_help_of_a_command(self):
        for words in ((), ("mask",), ("bench", "model")):
            self.assertEqual(stof("help", *words).stdout, stof(*words, "--help").stdout)

    def test_help_says_of_every_command_what_it_does(self):
        for command in ((), ("bench",), ("plans",)):
            commands = stof(*command, "--help").stdout.split("Subcommands:\n")[1]
            for name, words in re.findall(r"^  (\w+) {2,}(.*)", commands, re.MULTILINE):
                with self.subTest(command=command, name=name):
                    self.assertRegex(words, "^[A-Z][a-z]+,? ")

    def test_help_names_files_folders_and_masks(self):
        for command, words in ((("run",), "--model DIR REQUIRED"), (("attention",), "--mask EXPR=all"),
                               (("bench", "attention"), "--json FILE "), (("plan",), "mask EXPR REQUIRED")):  # fmt: skip
            with self.subTest(command):
                self.assertIn(f"  {words}", stof(*command, "--help").stdout)

    def test_the_page_of_commands_has_every_option_and_no_other(self):
        of_all = {"--help", "--jit"}  # said once, above the commands
        page = (Path(__file__).resolve().parents[2] / "docs/cli.md").read_text(encoding="utf-8")
        for command in COMMANDS:
            with self.subTest(command):
                helps = [stof(command, "--help").stdout]
                helps += [stof(command, name, "--help").stdout for name in
                          re.findall(r"^  (\w+) {2,}", helps[0].partition("Subcommands:\n")[2], re.MULTILINE)]  # fmt: skip
                options = {option for text in helps for option in re.findall(r"^  (?:-\w,)?(--[a-z-]+)", text, re.MULTILINE)}
                section = page.split(f"\n## stof {command}\n")[1].split("\n## ")[0]
                usage = section.split("\n\n")[0]
                self.assertEqual(options - of_all, set(re.findall(r"--[a-z][a-z-]*", usage)))

    def test_lines_of_the_readme_run_as_they_stand(self):
        page = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
        lines = re.findall(r"^    (stof (?:doctor|mask|plan|help) .*)$", page, re.MULTILINE)
        self.assertEqual(len(lines), 3)
        environment = os.environ | {"PATH": f"{Path(STOF).resolve().parent}:{os.environ['PATH']}"}
        for line in lines:
            with self.subTest(line):
                done = subprocess.run(line, shell=True, env=environment, capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_errors(self):
        accepted = f"; accepted: {', '.join(COMMANDS)}"
        see = "; --help lists what is accepted"
        for arguments, message in (
            ((), f"no command{accepted}"),
            (("trian",), f"'trian' is no command{accepted}"),
            (("--fast",), f"'--fast' is no command{accepted}"),
            (("doctor", "now"), f"The following argument was not expected: now{see}"),
            (("doctor", "--fast"), f"The following argument was not expected: --fast{see}"),
            (("doctor", "--json", ""), f"--json: the value is empty{see}"),
            (("doctor", "now", "or", "--never"), f"The following arguments were not expected: now or --never{see}"),
            (("mask",), f"mask is required{see}"),
            (("mask", "causal", "--seqq", "8"), f"no option '--seqq'; --seq is required{see}"),
            (("graph", "folder"), f"nothing is done with 'folder'; --model is required{see}"),
            (("help", "trian"), f"'trian' is no command{accepted}"),
            (("bench", "attention", "--mask", ""), f"--mask: the value is empty{see}"),
            (("plans",), "no command of 'plans'; accepted: list, show, verify, export, import"),
            (("demo", "--model", "m", "--part", "none"), "--part none; accepted: all, text, masks"),
            (("demo", "--model", "m", "--part", "masks", "--device", "gpu"),
             "unknown device 'gpu'; accepted: auto, cpu, cuda, cuda:N; to plan for: cuda:h200, cuda:h100, cuda:a100"),
        ):
            with self.subTest(arguments):
                done = stof(*arguments)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", f"stof: {message}\n"))

    def test_numbers_are_decimal(self):
        """Of every option that --help says to be a number, before anything else is asked for."""
        found = set()
        for command in COMMANDS:
            of_command = stof(command, "--help").stdout
            names = re.findall(r"^  (\w+) {2,}", of_command.partition("Subcommands:\n")[2], re.MULTILINE)
            for words in [(command,), *((command, name) for name in names)]:
                for option, kind in re.findall(r"^  (--[a-z-]+) (INT|FLOAT)", stof(*words, "--help").stdout, re.MULTILINE):
                    found.add(option)
                    for value, accepted in (("0x10", "a (whole )?number, as in .*"), ("x", "a (whole )?number, as in .*"),
                                            ("1e999" if kind == "FLOAT" else "9" * 20, ".* in size")):  # fmt: skip
                        with self.subTest(words=words, option=option, value=value):
                            done = stof(*words, option, value)
                            self.assertEqual(done.returncode, 2)
                            self.assertRegex(done.stderr, f"^stof: {option} '?{value}'?; accepted: {accepted}\n$")
        self.assertEqual(found, {"--batch", "--biased", "--compilers", "--global-tokens", "--heads", "--kv-heads", "--passes", "--scale", "--seconds", "--seed",
                                 "--seq-kv", "--softcap", "--temperature", "--threads", "--tokens", "--top-k",
                                 "--top-p", "--tree-queries"})  # fmt: skip
        for arguments, message in (
            (("mask", "--heads", "12 "), "--heads '12 '; accepted: a whole number, as in 12"),
            (("run", "--batch", "9" * 20), f"--batch {'9' * 20}; accepted: a whole number of at most 9223372036854775807 in size"),
            (("run", "--threads", "-2147483649"), "--threads -2147483649; accepted: a whole number of at most 2147483647 in size"),
            (("tune", "--seq", "0x8"), "--seq '0x8'; accepted: a whole number, as in 12"),
            (("bench", "model", "--batch", "1", "0x8"), "--batch '0x8'; accepted: a whole number, as in 12"),
            *((("attention", option, value), f"{option} {value}; accepted: 0, or a number of 1.2e-38 to 1e+18 in size")
              for option in ("--scale", "--softcap") for value in ("1e-400", "1e39", "1e30", "-2e18")),
            (("attention", "--scale", "1,5"), "--scale '1,5'; accepted: a number, as in 12 or 0.5"),
        ):
            with self.subTest(arguments):
                done = stof(*arguments)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", f"stof: {message}\n"))
        self.assertIn(", 10 heads;", stof("mask", "causal", "--seq", "8", "--heads", "010").stdout)

    def test_closed_streams(self):
        mask = f"'{STOF}' mask causal --seq 4"
        with tempfile.TemporaryDirectory() as folder:
            file = f"{folder}/mask.npy"
            for redirected, code, message in (
                (f"'{STOF}' --version >/dev/full", 4, "stof: cannot write to stdout: No space left on device\n"),
                (f"'{STOF}' mask --help >/dev/full", 4, "stof: cannot write to stdout: No space left on device\n"),
                (f"{mask} --out '{file}' >&-", 4, "stof: cannot write to stdout: Bad file descriptor\n"),
                (f"{mask} --out '{file}' >&- 2>&- <&-", 4, ""),
                (f"'{STOF}' mask bogus --seq 4 2>&-", 2, ""),
                (f"'{STOF}' mask bogus --seq 4 2>/dev/full", 2, ""),
            ):
                with self.subTest(redirected):
                    done = subprocess.run(redirected, shell=True, capture_output=True, text=True, timeout=60, check=False)
                    self.assertEqual((done.returncode, done.stdout, done.stderr), (code, "", message))
            self.assertEqual(npy.read(file)[2], tuple(j <= p for p in range(4) for j in range(4)))


if __name__ == "__main__":
    unittest.main()
