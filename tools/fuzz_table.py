#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds what runs of the fuzz targets saw to bench/results/fuzzing.json and writes the table of docs/hardening.md anew.

usage: tools/fuzz_table.py [RUNS.jsonl...]   lines as tools/fuzz.sh appends them to build/fuzz/runs.jsonl; a run that is
                                             known, by target, begin and processor, is replaced
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from pasted import markdown, paste  # noqa: E402

RESULTS = ROOT / "bench/results/fuzzing.json"
PAGE = ROOT / "docs/hardening.md"
READS = {
    "mask": "text of masks; prints, parses again, binds",
    "tokenizer": "tokenizer.json, or vocab.txt and tokenizer_config.json",
    "byte_level": "tokenizer.json with byte-level BPE",
    "safetensors": "model.safetensors",
    "shards": "model.safetensors.index.json and two shards",
    "config": "config.json, modules.json, the pooling's config, two lengths",
    "npy": ".npy arrays; writes and reads them again",
}


def key_of(run):
    return run["target"], run["begin"], run["processor"], run.get("process", 1)


def joined(known, more):
    runs = {key_of(run): run for run in known + more}
    return sorted(runs.values(), key=lambda run: (run["begin"], run["target"], run.get("process", 1)))


def line_of(target, runs):
    mine = [run for run in runs if run["target"] == target]
    inputs, minutes = sum(run["inputs"] for run in mine) / 1e6, sum(run["seconds"] for run in mine) / 60
    edges = max((run["edges"] for run in mine), default=0)
    found = ", ".join(f"`{run['found']}`" for run in mine if run["found"]) or "nothing"
    return [f"`{target}`", READS[target], f"{inputs:.1f}", f"{minutes:.0f}", f"{edges:,}", found]


def main():
    known = json.loads(RESULTS.read_text(encoding="utf-8"))["runs"] if RESULTS.exists() else []
    more = [json.loads(line) for name in sys.argv[1:] for line in Path(name).read_text(encoding="utf-8").splitlines()]
    if unknown := {run["target"] for run in more} - READS.keys():
        sys.exit(f"fuzz_table: no such target: {', '.join(sorted(unknown))}; targets: {', '.join(READS)}")
    runs = joined(known, more)
    rows = ",\n  ".join(json.dumps(run) for run in runs)
    RESULTS.write_text(f'{{"command": "tools/fuzz_table.py", "runs": [\n  {rows}\n]}}\n', encoding="utf-8")
    head = ["target", "reads", "inputs, million", "minutes of a processor", "edges reached", "found"]
    days = sorted({run["begin"][:10] for run in runs})
    source = f"[bench/results/fuzzing.json](../bench/results/fuzzing.json): {len(runs)} processes, last on {days[-1]}."
    paste(PAGE, "fuzz", f"{source}\n\n{markdown(head, [line_of(target, runs) for target in READS])}")


if __name__ == "__main__":
    main()
