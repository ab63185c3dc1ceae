#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""stof mask from the outside: keys, counts, arrays, pictures, refusals.

usage: mask_test.py STOF
"""

import json
import os
import re
import resource
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import npy

STOF = sys.argv.pop(1)


def stof(*arguments):
    return subprocess.run([STOF, "mask", *arguments], capture_output=True, text=True, timeout=120, check=False)


def report(*arguments):
    return json.loads(stof(*arguments, "--json", "-").stdout)


class Mask(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def array(self, *arguments):
        file = str(self.folder / "mask.npy")
        self.assertEqual(stof(*arguments, "--out", file).returncode, 0)
        return npy.read(file)

    def test_json_has_the_documented_keys(self):
        found = report("causal", "--seq", "256")
        self.assertEqual(
            list(found),
            ["mask", "fingerprint", "queries", "keys", "batch", "heads", "distinct", "density", "allowed_pairs",
             "empty_rows", "blocks", "layout", "bind_us", "stats_us", "pack_us", "plan_us"])  # fmt: skip
        for blocks in found["blocks"]:
            self.assertEqual(
                list(blocks),
                ["block_q", "block_kv", "empty", "partial", "full", "waste", "heaviest_row_block", "mean_row_block"])  # fmt: skip
        self.assertEqual(list(found["layout"]), ["block_q", "block_kv", "entries", "bitmaps", "bytes"])
        self.assertAlmostEqual(found["plan_us"], found["stats_us"] + found["pack_us"])

    def test_counts(self):
        found = report("causal", "--seq", "256")
        self.assertEqual(found["allowed_pairs"], 256 * 257 // 2)
        self.assertEqual(found["density"], 257 / 512)
        small = found["blocks"][0]
        self.assertEqual((small["block_q"], small["block_kv"]), (64, 64))
        self.assertEqual((small["empty"], small["partial"], small["full"]), (6 / 16, 4 / 16, 6 / 16))
        self.assertAlmostEqual(small["waste"], 10 * 64 * 64 / (256 * 257 / 2))
        self.assertEqual((small["heaviest_row_block"], small["mean_row_block"]), (4, 2.5))
        self.assertEqual((found["layout"]["entries"], found["layout"]["bitmaps"]), (10, 1))
        for blocks in report("bigbird(16,3,2,1,7)", "--seq", "200x500")["blocks"]:
            self.assertAlmostEqual(blocks["empty"] + blocks["partial"] + blocks["full"], 1)

    def test_nothing_allowed(self):
        found = report("none", "--seq", "3x5")
        self.assertEqual((found["density"], found["empty_rows"], found["blocks"][0]["waste"]), (0, 3, None))

    def test_heads_and_items(self):
        found = report("heads(0: causal, *: all)", "--seq", "8", "--heads", "3", "--batch", "2")
        self.assertEqual((found["heads"], found["batch"], found["distinct"]), (3, 2, 2))
        self.assertEqual(found["allowed_pairs"], 2 * (36 + 64 + 64))

    def test_array_of_one_head(self):
        shape, descr, values = self.array("causal & window(1,0)", "--seq", "2x70")
        self.assertEqual((shape, descr), ((2, 70), "|b1"))
        self.assertEqual(values, tuple(p - 1 <= j <= p for p in (68, 69) for j in range(70)))

    def test_array_of_heads(self):
        shape, _, values = self.array("heads(0: none, 1: causal)", "--seq", "3", "--heads", "2", "--batch", "2")
        self.assertEqual(shape, (2, 2, 3, 3))
        self.assertEqual(values, 2 * (9 * (False,) + tuple(j <= p for p in range(3) for j in range(3))))

    def test_array_and_bits_are_inverse(self):
        file = self.folder / "first.npy"
        _, _, values = self.array("longformer(9,2) & !strided(3)", "--seq", "131x150")
        (self.folder / "mask.npy").rename(file)
        _, _, again = self.array(f"bits({file})", "--seq", "131x150")
        self.assertEqual(values, again)

    def test_one_row_of_document_ids_is_of_every_item(self):
        file = npy.write(self.folder / "ids.npy", (1, 4), [0, 0, 1, 1], "<i4")
        found = report(f"document_ids({file})", "--seq", "4", "--batch", "2")
        self.assertEqual((found["distinct"], found["allowed_pairs"]), (1, 2 * 8))

    def test_what_takes_long_is_said(self):
        """Numbers beyond 2^30, pair by pair: some seconds, on a slow machine more. Writing is said where something is written."""
        mask, size = "where(q * q * q * k % 1000003 % 7 < 3)", 4096
        while True:
            began = time.monotonic()
            done = stof(mask, "--seq", str(size))
            self.assertEqual(done.returncode, 0, done.stderr)
            if time.monotonic() - began > 4:
                break
            size = size * 3 // 2
        self.assertRegex(done.stderr, r"\A(?:(?:binding|measuring) the mask  \d+ s\n)+\Z")
        done = stof(mask, "--seq", str(size), "--out", str(self.folder / "mask.npy"), "--png", str(self.folder / "mask.png"))
        self.assertRegex(done.stderr, r"\A(?:(?:binding|measuring) the mask  \d+ s\n)+(?:writing the mask  \d+ s\n)+"
                                      r"(?:drawing the mask  \d+ s\n)+\Z")  # fmt: skip

    def test_a_file_whose_name_is_not_text(self):
        file = str(self.folder).encode() + b"/\xff.npy"
        npy.write(os.fsdecode(file), (2, 2), [True] * 4, "|b1")
        done = subprocess.run([STOF, "mask", b"bits(" + file + b")", "--seq", "2", "--json", "-"],
                              capture_output=True, timeout=120, check=False)  # fmt: skip
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(json.loads(done.stdout)["mask"], f'bits("{self.folder}/\ufffd.npy")')

    def test_an_array_above_4_gib_needs_force(self):
        file = str(self.folder / "mask.npy")
        done = stof("causal", "--seq", "65536x65537", "--out", file)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr, f"stof: '{file}' would take 4.0 GiB; above 4 GiB needs --force\n")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_an_array_that_the_disk_cannot_hold_is_not_begun(self):
        file = str(self.folder / "mask.npy")
        done = stof("causal", "--seq", "8000000", "--out", file, "--force")
        self.assertEqual(done.returncode, 4)
        self.assertRegex(done.stderr, rf"^stof: '{file}' would take 59604.6 GiB; [0-9.]+ GiB are free$")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_outputs_are_checked_before_the_work(self):
        file = str(self.folder / "same")
        (self.folder / "ring").symlink_to("ring")
        for arguments, message in (
            (("--out", file, "--json", file), f"--out and --json both write '{file}'"),
            (("--png", file, "--json", file), f"--png and --json both write '{file}'"),
            (("--json", "no/such"), "cannot write 'no/such': No such file or directory"),
            (("--out", str(self.folder / "ring")),
             f"cannot write '{self.folder}/ring': Too many levels of symbolic links"),
        ):  # fmt: skip
            done = stof("causal", "--seq", "60000", *arguments)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", f"stof: {message}\n"))
        self.assertEqual([entry.name for entry in self.folder.iterdir()], ["ring"])

    def test_drawing(self):
        done = stof("causal", "--seq", "2", "--draw")
        self.assertEqual(done.stdout.split("\n\n")[-1], "0 ██··\n1 ████\n█ all  ▒ some  · none; each 1 query x 1 key\n")
        done = stof("heads(0: all, 1: none)", "--seq", "1", "--heads", "2", "--draw")
        self.assertIn("\nitem 0, head 1\n0 ··\n", done.stdout)

    def test_png(self):
        file = self.folder / "mask.png"
        self.assertEqual(stof("causal", "--seq", "100x200", "--png", str(file)).returncode, 0)
        raw = file.read_bytes()
        self.assertEqual(raw[:8], b"\x89PNG\r\n\x1a\n")
        width, height, depth, colour = struct.unpack_from(">IIBB", raw, 16)
        self.assertEqual((width, height, depth, colour), (1000, 500, 8, 0))

    def test_json_into_a_file_leaves_the_text_on_stdout(self):
        file = self.folder / "report.json"
        done = stof("window(3)", "--seq", "100", "--json", str(file))
        self.assertIn("window(3)", done.stdout)
        self.assertEqual(json.loads(file.read_text())["mask"], "window(3)")

    def test_help_names_every_term(self):
        page = (Path(__file__).resolve().parents[2] / "docs/masks.md").read_text(encoding="utf-8")
        rows = re.findall(r"^\| `(.*?)\|", page[page.index("## Terms") : page.index("`!` binds")], re.MULTILINE)
        names = {re.match(r"\w+", name)[0] for row in rows for name in row.split("`, `")}
        self.assertGreater(len(names), 20)
        said = stof("mask", "--help").stdout
        self.assertTrue(all(len(line) <= 110 for line in said.splitlines()))
        of_terms = said[said.index("Terms, which & | ! and parentheses join; docs/masks.md says what each allows:") :]
        self.assertEqual(names, {re.match(r"\s*(\w+)", name)[1] for usage in re.split(r";\s+", of_terms.split("allows:\n")[1]) for name in usage.split(" or ")})

    def test_errors(self):
        accepted = "accepted: N, or NxM for N queries and M keys, each at least 1"
        for arguments, code, message in (
            (("causal", "--seq", "4x"), 2, f"--seq '4x'; {accepted}"),
            (("causal", "--seq", "0"), 2, f"--seq '0'; {accepted}"),
            (("causal", "--seq", "-4"), 2, f"--seq '-4'; {accepted}"),
            (("causal", "--seq", "99999999999999999999"), 2, f"--seq '99999999999999999999'; {accepted}"),
            (("causal", "--seq", "4", "--heads", "0"), 2,
             "--heads 0 and --batch 1; accepted: at least 1 each, at most 1048576 together"),
            (("causal", "--seq", "4", "--draw", "--json", "-"), 2,
             "--draw and --json - both write to stdout; give --json a file"),
            (("causal", "--seq", "1000000000"), 3,
             "a mask of 1000000000 queries and 1000000000 keys has 2.44e+14 blocks of 64 x 64; at most 1.72e+10 are "
             "planned"),
            (("causal", "--seq", "1x1000000000000"), 3,
             "a mask of 1 queries and 1000000000000 keys; at most 1073741824 of each are planned"),
            (("causal", "--seq", "8", "--json", "/dev/full"), 4, "cannot write '/dev/full': No space left on device"),
        ):  # fmt: skip
            done = stof(*arguments)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (code, "", f"stof: {message}\n"))
        with tempfile.TemporaryDirectory() as folder:
            few = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
            done = subprocess.run([STOF, "mask", "causal", "--seq", "1000", "--out", f"{folder}/m.npy"], capture_output=True, text=True, preexec_fn=few, check=False)
            self.assertEqual((done.returncode, done.stderr), (4, f"stof: cannot write '{folder}/m.npy': File too large\n"))
            self.assertEqual(os.listdir(folder), [])
        with open("/dev/full", "w") as full:
            done = subprocess.run([STOF, "mask", "causal", "--seq", "8"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, done.stderr),
                         (4, "stof: cannot write to stdout: No space left on device\n"))  # fmt: skip
        done = stof("causl", "--seq", "8")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"^stof: .*causl")


if __name__ == "__main__":
    unittest.main()
