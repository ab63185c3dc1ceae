#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds what runs of tools/soak.sh tried to bench/results/soak.json and writes the table of docs/hardening.md anew.

usage: tools/soak_table.py [RUNS.jsonl...]   lines as tools/soak.sh appends them to build/soak/runs.jsonl; a run that is
                                             known, by device, begin and processor, is replaced
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from kept_runs import add_runs, runs_named  # noqa: E402
from pasted import markdown, paste  # noqa: E402

RESULTS = ROOT / "bench/results/soak.json"
PAGE = ROOT / "docs/hardening.md"


def key_of(run):
    return run["device"], run["begin"], run["processor"]


def line_of(run):
    kernels = ", ".join(f"`{kernel}` {problems:,}" for kernel, problems in run["problems"].items())
    found = f"{run['failed']} processes" if run["failed"] else "nothing"
    return [run["begin"][:10], run["commit"], run["device"], f"{sum(run['problems'].values()):,}", kernels,
            f"{run['first_seed']:,}", f"{run['seconds']:,} s, {run['processes']} at a time", found]  # fmt: skip


def main():
    runs = add_runs(RESULTS, runs_named(__doc__), key_of, "tools/soak_table.py")
    head = ["day", "commit", "device", "problems", "of them", "seeds from", "took", "differs"]
    source = "From [bench/results/soak.json](../bench/results/soak.json)."
    paste(PAGE, "soak", f"{source}\n\n{markdown(head, [line_of(run) for run in runs])}")


if __name__ == "__main__":
    main()
