# SPDX-License-Identifier: Apache-2.0
"""Text to token ids on one thread: STOF against the Python package `tokenizers` (Rust), each in a process of its own, in
turns, on the same files. Different ids have no time.

    python bench/peers/tokenizer_cpu.py --model DIR --out results.json
"""
from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

from cpu_run import ROOT, Results, environment, show

FILES = ("data/sentences.txt", "docs/masks.md")
ROUNDS = 3


def output_of(*command) -> dict:
    return json.loads(subprocess.run([str(part) for part in command], cwd=ROOT, capture_output=True, text=True, check=True).stdout)


def peer_of(rates: list, row: dict) -> dict:
    """Of MB/s, one a round, each the median of many passes."""
    return {"median_us": row["bytes"] / statistics.median(rates), "best_us": row["bytes"] / max(rates),
            "mb_per_s": statistics.median(rates), "tokens": row["tokens"], "id_sum": row["id_sum"]}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/release/bench/bench_tokenizer"))
    parser.add_argument("--model", default=str(ROOT / ".cache/models/all-MiniLM-L6-v2"))
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    model = Path(arguments.model).resolve()
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(output_of(arguments.program, model, *FILES))
        theirs.append(output_of(sys.executable, ROOT / "bench/peers/tokenizer.py", model, *FILES))
    packages = {"tokenizers": theirs[0]["tokenizers"]}
    results = Results(arguments.out, {"command": "peers tokenizer cpu", **environment(1, packages)}, resume=False)
    for i, file in enumerate(FILES):
        own, other = ours[0]["rows"][i], theirs[0]["rows"][i]
        if (own["tokens"], own["id_sum"]) != (other["tokens"], other["id_sum"]):
            raise SystemExit(f"{file}: {own['tokens']} tokens by STOF, {other['tokens']} by tokenizers, or other ids")
        peers = {"stof": peer_of([run["rows"][i]["mb_per_s"] for run in ours], own),
                 "tokenizers": peer_of([max(run["rows"][i]["mb_per_s"], run["rows"][i]["without_offsets_mb_per_s"])
                                        for run in theirs], other)}  # fmt: skip
        results.add({"id": f"{Path(file).name}, {own['bytes']:,} bytes", "peers": peers})
        show(file, peers)


if __name__ == "__main__":
    main()
