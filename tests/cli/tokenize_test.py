#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""stof tokenize from the outside: lines, ends of lines, bytes that are not UTF-8, ids to texts, exit codes.

usage: tokenize_test.py STOF MODEL
"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import small_model

MODEL = sys.argv.pop(2)
STOF = sys.argv.pop(1)
HELLO, WORLD, EMPTY = "101 7592 102\n", "101 2088 102\n", "101 102\n"


class OfStdin(unittest.TestCase):
    def test_a_small_model(self):
        with tempfile.TemporaryDirectory() as folder:
            model = small_model.write(Path(folder, "model"))
            for command in ("tokenize", "run"):
                done = subprocess.run([STOF, command, "--model", model, "--input", "-"], input=b"hello\nworld", timeout=60,
                                      capture_output=True, check=True)  # fmt: skip
                self.assertEqual(len(done.stdout.splitlines()), 2)

    def test_ids_to_texts(self):
        with tempfile.TemporaryDirectory() as folder:
            model = small_model.write(Path(folder, "model"), vocabulary=[*small_model.VOCABULARY, "##s", "."])

            def decode(data, *options):
                done = subprocess.run([STOF, "tokenize", "--model", model, "--input", "-", *options], input=data,
                                      timeout=60, capture_output=True, text=True, check=False)  # fmt: skip
                return done.returncode, done.stdout, done.stderr

            ids = decode("hello worlds.\n\na")[1]
            self.assertEqual(ids, "2 5 6 8 9 3\n2 3\n2 7 3\n")
            self.assertEqual(decode(ids, "--decode"), (0, "hello worlds.\n\na\n", ""))
            self.assertEqual(decode(ids, "--decode", "--special"),
                             (0, "[CLS] hello worlds. [SEP]\n[CLS] [SEP]\n[CLS] a [SEP]\n", ""))  # fmt: skip
            self.assertEqual(decode("  5   6 \n", "--decode"), (0, "hello world\n", ""))
            self.assertEqual(decode("5\n5 10\n", "--decode"), (
                2, "", "stof: stdin: line 2: id 10 has no token; accepted: ids of the 10 tokens of the vocabulary, up to 9\n"))
            for word in ("x", "5,", "+5", "2147483648", "5\t6"):
                code, text, error = decode(f"5\n\n5 {word}\n", "--decode")
                self.assertEqual((code, text), (2, ""))
                self.assertRegex(error, "stof: stdin: line 3: '.*' is no id; accepted: integers with spaces between them\n")
            self.assertIn("--special requires --decode", decode("", "--special")[2])

    def test_what_is_no_file(self):
        with tempfile.TemporaryDirectory() as folder:
            model = small_model.write(Path(folder, "model"))
            for command in ("tokenize", "run"):
                for name, kind in (("/dev/null", "a device"), (folder, "a folder")):
                    done = subprocess.run([STOF, command, "--model", model, "--input", name], timeout=60, text=True,
                                          capture_output=True, check=False)  # fmt: skip
                    self.assertEqual((done.returncode, done.stderr),
                                     (2, f"stof: cannot read {name}: it is {kind}; accepted: a regular file, a pipe, or - for stdin\n"))


    def test_pipes(self):
        """As a shell gives them for `<(command)`, and by name."""
        with tempfile.TemporaryDirectory() as folder:
            model, file, pipe = small_model.write(Path(folder, "model")), Path(folder, "lines"), Path(folder, "pipe")
            text = "a b\n" * 30000  # more than a pipe holds
            file.write_text(text)
            os.mkfifo(pipe)
            call = lambda name, **options: subprocess.run([STOF, "tokenize", "--model", model, "--input", name], timeout=60, text=True,
                                                          capture_output=True, check=True, **options).stdout  # fmt: skip
            want = call(file)
            self.assertEqual(want.count("\n"), 30000)
            writer = subprocess.Popen(["sh", "-c", f"cat '{file}' > '{pipe}'"])
            self.assertEqual(call(pipe), want)
            writer.wait()
            with subprocess.Popen(["cat", file], stdout=subprocess.PIPE) as writer:
                end = writer.stdout.fileno()
                self.assertEqual(call(f"/dev/fd/{end}", pass_fds=[end]), want)


class Tokenize(unittest.TestCase):
    def setUp(self):
        if not Path(MODEL, "tokenizer.json").exists():
            self.fail(f"no checkpoint in {MODEL}; `make model` fetches it")
        self.folder = tempfile.TemporaryDirectory()
        self.file = Path(self.folder.name) / "input.txt"

    def tearDown(self):
        self.folder.cleanup()

    def run_on(self, data):
        self.file.write_bytes(data)
        return self.tokenize(MODEL, self.file)

    def tokenize(self, model, file):
        return subprocess.run([STOF, "tokenize", "--model", model, "--input", file], capture_output=True, text=True,
                              timeout=60, check=False)  # fmt: skip

    def expect(self, data, stdout):
        done = self.run_on(data)
        self.assertEqual((done.stdout, done.stderr, done.returncode), (stdout, "", 0))

    def expect_error(self, done, message):
        self.assertEqual((done.stdout, done.stderr, done.returncode), ("", f"stof: {message}\n", 2))

    def test_a_line_per_text(self):
        self.expect(b"hello\nworld\n", HELLO + WORLD)
        self.expect(b"hello\nworld", HELLO + WORLD)
        self.expect(b"hello\r\nworld\r\n", HELLO + WORLD)
        self.expect(b"\nhello\n\r\n\nworld\n\n", EMPTY + HELLO + EMPTY + EMPTY + WORLD + EMPTY)
        self.expect(b"", "")
        self.expect(b"\n", EMPTY)
        self.expect(b" \t \n", EMPTY)

    def test_stdin(self):
        def tokenize(data, arguments=("tokenize",)):
            return subprocess.run([STOF, *arguments, "--model", MODEL, "--input", "-"], input=data, capture_output=True,
                                  timeout=60, check=False)  # fmt: skip

        self.assertEqual(tokenize(b"hello\n\nworld").stdout.decode(), HELLO + EMPTY + WORLD)
        self.assertEqual(tokenize(b"").stdout, b"")
        self.assertEqual(len(tokenize(b"hello\nworld\n", ("run",)).stdout.splitlines()), 2)
        for command, more, message in (("tokenize", b"\xff\n", "stdin: line 2 is not UTF-8 at its byte 0: 0xFF"),
                                       ("run", b"hello " * 1000, "stdin: line 2 has 1002 tokens")):  # fmt: skip
            words = (command, "--no-truncate") if command == "run" else (command,)
            done = tokenize(b"hello\n" + more, words)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"stof: {message}", done.stderr.decode())

    def test_only_lf_ends_a_line(self):
        self.expect("hello\rworld\u2028hello".encode(), "101 7592 2088 7592 102\n")

    def test_texts_are_not_truncated(self):
        self.assertEqual(len(self.run_on(b"hello " * 1000).stdout.split()), 1002)

    def test_bytes_that_are_not_utf8(self):
        self.expect_error(self.run_on(b"hello\nabc\xffd\n"), f"{self.file}: line 2 is not UTF-8 at its byte 3: 0xFF")
        self.expect_error(self.run_on(b"\xe4\xb8\n"), f"{self.file}: line 1 is not UTF-8 at its byte 0: 0xE4")

    def test_files_that_are_missing(self):
        missing = Path(self.folder.name) / "missing"
        self.expect_error(self.tokenize(MODEL, missing), f"cannot read {missing}: No such file or directory")
        self.file.write_bytes(b"hello\n")
        self.expect_error(self.tokenize(self.folder.name, self.file), f"{self.folder.name}: neither tokenizer.json nor vocab.txt")
        accepted = "; accepted: one with tokenizer.json or vocab.txt"
        self.expect_error(self.tokenize(missing, self.file), f"{missing}: no such folder{accepted}")
        self.expect_error(self.tokenize(self.file, self.file), f"{self.file}: not a folder{accepted}")


if __name__ == "__main__":
    unittest.main()
