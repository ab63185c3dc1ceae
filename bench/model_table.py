#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of docs/kernels/session.md from the result of bench_model.

usage: bench/model_table.py bench/results/COMMIT-h200-model.json
"""

import json
import re
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs/kernels/session.md"
MARKS = re.compile(r"(<!-- table -->\n).*(<!-- /table -->)", re.DOTALL)


def cells(row):
    return [row["model"], row["dtype"], f"{row['texts']:,}", f"{row['longest']:,}", f"{row['tokens']:,}",
            f"{row['bucket'][0]:,}", row["attention"], f"{row['device_us']:,.0f}", f"{row['wall_us']:,.0f}",
            f"{row['error']:.1e}"]  # fmt: skip


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    path = Path(sys.argv[1])
    report = json.loads(path.read_text(encoding="utf-8"))
    head = ["model", "dtype", "texts", "longest", "tokens", "rows run", "attention", "device, us", "wall, us", "error"]
    lines = [
        f"[bench/results/{path.name}](../../bench/results/{path.name}): {report['device']}; {report['method']}.",
        "",
        *("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *map(cells, report["rows"])]),
    ]
    text = PAGE.read_text(encoding="utf-8")
    if not MARKS.search(text):
        sys.exit(f"model_table: {PAGE} has no table marks")
    PAGE.write_text(MARKS.sub(lambda match: match[1] + "\n".join(lines) + "\n" + match[2], text), encoding="utf-8")


if __name__ == "__main__":
    main()
