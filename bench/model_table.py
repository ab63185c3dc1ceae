#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of docs/kernels/session.md from the result of bench_model.

usage: bench/model_table.py bench/results/COMMIT-h200-model.json
"""

from pasted import ROOT, link, markdown, paste, read, results_named

PAGE = ROOT / "docs/kernels/session.md"
HEAD = ["model", "dtype", "texts", "longest", "tokens", "rows run", "attention", "device, us", "wall, us", "error"]


def cells(row):
    return [row["model"], row["dtype"], f"{row['texts']:,}", f"{row['longest']:,}", f"{row['tokens']:,}",
            f"{row['bucket'][0]:,}", row["attention"], f"{row['device_us']:,.0f}", f"{row['wall_us']:,.0f}",
            f"{row['error']:.1e}"]  # fmt: skip


def main():
    [path] = results_named(__doc__)
    report = read(path)
    source = f"{link(path, PAGE)}: {report['device']}; {report['method']}.\n\n"
    paste(PAGE, "table", source + markdown(HEAD, map(cells, report["rows"])))


if __name__ == "__main__":
    main()
