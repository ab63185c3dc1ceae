#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of docs/kernels/planning.md from the result of bench_plan.

usage: bench/plan_table.py bench/results/COMMIT-cpu-plan.json
"""

import json
import re
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs/kernels/planning.md"
MARKS = re.compile(r"(<!-- table -->\n).*(<!-- /table -->)", re.DOTALL)
# What statistics and packing together may take, us.
WANTED = {
    "window(512)": 1000,
    "longformer(512,512)": 1000,
    "bigbird(64,3,2,3,1)": 1000,
    "causal & window(4096)": 20000,
    "bits, 5 % at random": 60000,
}


def cells(row):
    bind, stats, pack = row["bind_us"], row["stats_us"], row["pack_us"]
    times = (bind["best"], stats["best"], pack["best"], stats["best"] + pack["best"], stats["median"] + pack["median"])
    wanted = WANTED.get(row["mask"])
    return [f"`{row['mask']}`", f"{row['length']:,}", *(f"{us:,.0f}" for us in times), f"{wanted:,}" if wanted else ""]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    path = Path(sys.argv[1])
    report = json.loads(path.read_text(encoding="utf-8"))
    head = ["mask", "length", "bind", "statistics", "packing", "both", "median of both", "wanted"]
    lines = [
        f"[bench/results/{path.name}](../../bench/results/{path.name}): {report['processor']}, {report['threads']} thread, "
        f"best and median of {report['runs']} runs, load {report['load']:.1f}.",
        "",
        *("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *map(cells, report["rows"])]),
    ]
    text = PAGE.read_text(encoding="utf-8")
    if not MARKS.search(text):
        sys.exit(f"plan_table: {PAGE} has no table marks")
    PAGE.write_text(MARKS.sub(lambda match: match[1] + "\n".join(lines) + "\n" + match[2], text), encoding="utf-8")


if __name__ == "__main__":
    main()
