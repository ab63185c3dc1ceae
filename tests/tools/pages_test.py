#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What programs write into pages, and the figures, are what they write of the stored results: no number in it was typed."""

import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools"))
import paste_demo  # noqa: E402

MARKED = re.compile(r"<!-- ([\w-]+) -->\n(.*?)<!-- /\1 -->", re.DOTALL)
RESULT = re.compile(r"\]\((?:\.\./)+(bench/results/[^)]+)\)")

# By page and mark; bench/report.py writes what is not here. None: of more than the files that the text names,
# or by a program that measures first.
WRITERS = {
    ("docs/decisions/0005-no-int8-weights.md", "int8-weights"): None,
    ("docs/decisions/0008-no-precompiled-prelude.md", "nvrtc-units"): None,
    ("docs/decisions/0010-words-are-stored.md", "limits"): ["bench/limits_table.py"],
    ("docs/fusion.md", "fusion-h100"): ["bench/fusion_table.py"],
    ("docs/fusion.md", "fusion-h200"): ["bench/fusion_table.py"],
    ("docs/fusion.md", "fusion-more-h200"): ["bench/fusion_table.py", "--more"],
    ("docs/benchmarks.md", "demo-gpu"): None,  # and the demo of README.md: below
    ("docs/benchmarks.md", "softcap-gpu"): ["bench/softcap_table.py"],
    ("docs/benchmarks.md", "model-split"): ["bench/split_table.py"],
    ("docs/hardening.md", "fuzz"): ["tools/fuzz_table.py"],
    ("docs/hardening.md", "soak"): ["tools/soak_table.py"],
    ("docs/kernels/attention-log.md", "counters"): ["bench/counters.py"],
    ("docs/kernels/bias.md", "bias"): ["bench/bias_table.py"],
    ("docs/kernels/gemm.md", "plain"): None,
    ("docs/kernels/gemm.md", "layer"): None,
    ("docs/kernels/gemm.md", "layer-h100"): None,
    ("docs/kernels/gemm.md", "choices"): None,
    ("docs/kernels/gemv.md", "gemv"): ["bench/gemv_table.py"],
    ("docs/kernels/ragged.md", "ragged"): ["bench/ragged_table.py"],
    ("docs/kernels/session.md", "table"): ["bench/model_table.py"],
    ("docs/kernels/session.md", "norms"): ["bench/norm_table.py"],
    ("docs/kernels/session.md", "norms-of-decoders"): ["bench/row_table.py"],
    ("docs/kernels/session.md", "halves-and-sums"): ["bench/row_table.py"],
    ("docs/kernels/session.md", "copies"): ["bench/row_table.py"],
    ("docs/kernels/stacked-heads.md", "stacked"): ["bench/stacked_table.py"],
    ("docs/kernels/token-attention.md", "tokens"): ["bench/token_attention_table.py"],
}

FIGURES = {"attention-gpu": "h200-attention-peers.json", "attention-cpu": "cpu-attention-peers.json"}


def command_of(page, mark, text):
    files = RESULT.findall(text.split("\n\n")[0])
    writer = WRITERS.get((page, mark), ["bench/report.py"])
    if writer is None or not text:  # of a page that waits for its results
        return None
    if writer == ["bench/report.py"]:
        return [*writer, *files, "--into", page, "--mark", mark]
    return writer if writer[0].startswith("tools/") else [*writer, *files]


class Pages(unittest.TestCase):
    """In a copy, since the programs write where they are."""

    maxDiff = 4000

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.copy = Path(folder.name)
        for part in ("docs", "bench/results"):
            shutil.copytree(ROOT / part, self.copy / part, ignore=shutil.ignore_patterns("*.png", "*.svg"))
        for file in [*ROOT.glob("bench/*.py"), *ROOT.glob("tools/*.py"), *ROOT.glob("bench/peers/*.json")]:
            target = self.copy / file.relative_to(ROOT)
            target.parent.mkdir(exist_ok=True)
            shutil.copy(file, target)

    def test_are_what_their_programs_write(self):
        written = 0
        for path in sorted(self.copy.glob("docs/**/*.md")):
            page, before = path.relative_to(self.copy).as_posix(), path.read_text(encoding="utf-8")
            for mark, text in MARKED.findall(before):
                command = command_of(page, mark, text)
                if command is None:
                    continue
                with self.subTest(page=page, mark=mark):
                    path.write_text(before.replace(text, "\n"), encoding="utf-8")
                    subprocess.run([sys.executable, *command], cwd=self.copy, check=True)
                    self.assertEqual(before, path.read_text(encoding="utf-8"))
                    written += 1
        self.assertGreater(written, 10)

    def test_figures_are_what_their_program_writes(self):
        self.assertEqual({path.stem for path in ROOT.glob("docs/figures/*")}, set(FIGURES))
        for name, results in FIGURES.items():
            with self.subTest(name):
                drawn = self.copy / "drawn.svg"
                command = ["bench/report.py", f"bench/results/{results}", "--figure", drawn]
                subprocess.run([sys.executable, *command], cwd=self.copy, check=True)
                self.assertEqual((ROOT / f"docs/figures/{name}.svg").read_text(encoding="utf-8"), drawn.read_text(encoding="utf-8"))

    def test_demos_are_those_that_are_kept(self):
        for name, mark in (("README.md", "demo"), ("docs/benchmarks.md", "demo-gpu")):
            with self.subTest(name):
                page = ROOT / name
                text = dict(MARKED.findall(page.read_text(encoding="utf-8")))[mark]
                kept = ROOT / re.search(r"bench/results/[^)\]]+", text)[0]
                self.assertEqual(text, paste_demo.section(kept, page, mark))

    def test_what_writes_pages_says_how_it_is_used(self):
        for name in ("draw_masks", "fuzz_table", "soak_table"):
            done = subprocess.run([sys.executable, f"tools/{name}.py", "--help"], cwd=self.copy, capture_output=True, text=True,
                                  check=False)  # fmt: skip
            self.assertRegex(done.stderr, rf"\nusage: (tools/)?{name}.py ")
            self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main()
