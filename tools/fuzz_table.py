#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds what runs of the fuzz targets saw to bench/results/fuzzing.json and writes the table of docs/hardening.md anew.

usage: tools/fuzz_table.py [RUNS.jsonl...]   lines as tools/fuzz.sh appends them to build/fuzz/runs.jsonl; a run that is
                                             known, by target, begin and processor, is replaced
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from kept_runs import add_runs, runs_named  # noqa: E402
from pasted import markdown, paste  # noqa: E402

RESULTS = ROOT / "bench/results/fuzzing.json"
PAGE = ROOT / "docs/hardening.md"
READS = {
    "mask": "text of masks; prints, parses again, binds",
    "tokenizer": "tokenizer.json, or vocab.txt and tokenizer_config.json",
    "byte_level": "tokenizer.json with byte-level BPE",
    "safetensors": "model.safetensors",
    "shards": "model.safetensors.index.json and two shards",
    "config": "config.json, modules.json, the pooling's config, two lengths, what ends a text, a dense layer's config",
    "npy": ".npy arrays; writes and reads them again",
}


def key_of(run):
    if run["target"] not in READS:
        sys.exit(f"fuzz_table: no such target: {run['target']}; targets: {', '.join(READS)}")
    return run["begin"], run["target"], run.get("process", 1), run["processor"]


def line_of(target, runs):
    mine = [run for run in runs if run["target"] == target]
    inputs, minutes = sum(run["inputs"] for run in mine) / 1e6, sum(run["seconds"] for run in mine) / 60
    edges = max((run["edges"] for run in mine), default=0)
    found = ", ".join(f"`{run['found']}`" for run in mine if run["found"]) or "nothing"
    return [f"`{target}`", READS[target], f"{inputs:.1f}", f"{minutes:.0f}", f"{edges:,}", found]


def main():
    runs = add_runs(RESULTS, runs_named(__doc__), key_of, "tools/fuzz_table.py")
    head = ["target", "reads", "inputs, million", "minutes of a processor", "edges reached", "found"]
    days = sorted({run["begin"][:10] for run in runs})
    source = f"[bench/results/fuzzing.json](../bench/results/fuzzing.json): {len(runs)} processes, last on {days[-1]}."
    paste(PAGE, "fuzz", f"{source}\n\n{markdown(head, [line_of(target, runs) for target in READS])}")


if __name__ == "__main__":
    main()
