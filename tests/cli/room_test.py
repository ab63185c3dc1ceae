#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Commands that are asked for more memory than there is (their address space is bounded here) say so and end with 2, 3
or 4: none dies of a signal, none blames the program. docs/hardening.md lists the limits.

usage: room_test.py STOF
"""

import os
import re
import resource
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import small_model

STOF = sys.argv.pop(1)
GIB = 1 << 30
NO_ROOM = r"(out of memory(: \d+ bytes (for|of) .*)?|.* bytes; accepted: at most .*)"


def empty_npy(path, shape, descr):
    """An array without elements: its shape may be anything."""
    header = str({"descr": descr, "fortran_order": False, "shape": shape})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
    return path


class Room(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def stof(self, *arguments, room=GIB, threads=2):
        bounded = lambda: resource.setrlimit(resource.RLIMIT_AS, (room, room))
        return subprocess.run([STOF, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False,
                              preexec_fn=bounded, env=dict(os.environ, OMP_NUM_THREADS=str(threads)))  # fmt: skip

    def refused(self, arguments, code, message, **given):
        """By the first line, which is a pattern."""
        done = self.stof(*arguments, **given)
        said = [line for line in done.stderr.splitlines() if line.startswith("stof: ")]
        self.assertEqual((done.returncode, len(said)), (code, 1), done.stderr)
        self.assertRegex(said[0], f"^stof: {message}$")

    def test_arrays_without_elements_of_any_shape(self):
        for shape, descr, mask in (((10**12, 0, 0), "|b1", "bits"), ((1 << 62, 0), "|b1", "bits"), ((10**12, 0), "<i4", "document_ids"),
                                   ((1 << 40, 1 << 20, 0, 5), "|b1", "bits")):  # fmt: skip
            table = empty_npy(self.folder / "table.npy", shape, descr)
            self.refused(("mask", f"{mask}('{table}')", "--seq", 8), 2,
                         re.escape(f"mask: {mask}: the array is {list(shape)}; accepted: at most ") + r"16777216 \w+ of at most 1073741824 a side")  # fmt: skip
        q = empty_npy(self.folder / "q.npy", (1 << 30, 1, 0, 64), "<f4")
        self.refused(("attention", "--q", q, "--k", q, "--v", q, "--out", self.folder / "o.npy"), 2,
                     r"attention: 1073741824 items of 1 heads; accepted: at most 16777216 heads of all items")  # fmt: skip

    def test_tables_whose_bits_take_more_than_the_file(self):
        table = empty_npy(self.folder / "table.npy", (1 << 23, 1, 1), "|b1")
        os.truncate(table, table.stat().st_size + (1 << 23))
        self.refused(("mask", f"bits('{table}')", "--seq", 8), 4, NO_ROOM)

    def test_masks_of_a_billion_keys(self):
        """Many of them in cells like no other: those of strided(2) are one, which is kept once."""
        self.refused(("mask", "dilated(200000000,2)", "--seq", "64x1000000000"), 3,
                     r"mask: 64 rows of 1000000000 keys have more than 1024 MiB of partial cells; use .*", room=4 * GIB)  # fmt: skip
        self.refused(("mask", "dilated(200000000,2)", "--seq", "64x1000000000"), 4, NO_ROOM)
        self.refused(("plan", "all", "--shape", f"1,1,{1 << 30},64", "--seq-kv", 1, "--kernel", "row_attention"), 3,
                     "no attention kernel takes this problem:")

    def test_more_tokens_than_there_is_room_for(self):
        self.refused(("bench", "model", "--part", "encoder", "--shape", "1048576,4096"), 2, "--shape 1048576,4096; accepted: .*")
        self.refused(("bench", "attention", "--mask", "all", "--shape", "1,1000000,4096,256"), 4,
                     r"attention of \(1,1000000,4096,256\): .* bytes; accepted: at most \d+, the memory of this machine")  # fmt: skip

    def test_texts(self):
        model = small_model.write(self.folder / "model")
        lines = self.folder / "lines.txt"
        lines.write_bytes(b"\n" * (64 << 20))
        self.refused(("run", "--model", model, "--input", lines), 4, NO_ROOM)
        lines.write_bytes(b"")
        os.truncate(lines, 257 << 20)
        self.refused(("run", "--model", model, "--input", lines), 2,
                     r"a text of 269484032 bytes; accepted: at most 268435456, so split it", room=2 * GIB)  # fmt: skip

    def test_whatever_there_is_room_for(self):
        """From too little to load the program to enough: where the first allocation fails is anybody's."""
        model = small_model.write(self.folder / "model")
        mask = "documents([0, 99]) & causal | bigbird(8,3,2,3,1)"
        ended = set()
        least = os.path.getsize(STOF) // (1 << 20) + 4  # with less the system cannot map the program, and kills it
        for arguments in (("run", "--model", model, "--text", "hello world"), ("mask", mask, "--seq", 8000), ("plan", mask, "--shape", "4,8,8000,64"),
                          ("bench", "attention", "--mask", mask, "--shape", "1,2,2000,64", "--seconds", "0.01", "--json", "-")):  # fmt: skip
            for megabytes in range(least, 400, 47):
                done = self.stof(*arguments, room=megabytes << 20, threads=1)
                ended.add(done.returncode)
                if done.returncode == 127:  # the loader
                    continue
                with self.subTest(arguments[0], megabytes=megabytes):
                    self.assertIn(done.returncode, (0, 4), done.stderr)
                    if done.returncode == 4:
                        self.assertRegex(done.stderr.splitlines()[-1], f"^stof: ({NO_ROOM}|cannot (read|open|load) .*)$")
        self.assertLessEqual({0, 4}, ended)

    def test_machine_code_that_there_is_no_room_for(self):
        """oneDNN writes it through what it did not get."""
        for megabytes in range(112, 220, 9):
            done = self.stof("bench", "attention", "--mask", "causal", "--shape", "1,2,2000,64", "--seconds", "0.01", "--json", "-",
                             room=megabytes << 20, threads=1)  # fmt: skip
            with self.subTest(megabytes=megabytes):
                self.assertIn(done.returncode, (0, 4), done.stderr)


if __name__ == "__main__":
    unittest.main()
