#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints, from a results file of the harness, the best variant of each problem as a Markdown table.

usage: table.py RESULTS.json
"""

import json
import sys


def best_rows(rows):
    best = {}
    for row in rows:
        if row["passed"] and row["burst_us"] > 0:
            known = best.get(row["problem"])
            if known is None or row["burst_us"] < known["burst_us"]:
                best[row["problem"]] = row
    return best.values()


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        results = json.load(file)
    print("| problem | burst us | steady us | x DRAM floor | TFLOP/s | worst row | variant |")
    print("|---|---|---|---|---|---|---|")
    for row in best_rows(results["rows"]):
        print(
            f"| {row['problem']} | {row['burst_us']:.2f} | {row['steady_us']:.2f} "
            f"| {row['burst_us'] / row['dram_floor_us']:.2f} | {row['tflops']:.0f} | {row['worst_row']:.1e} "
            f"| {row['variant']} |"
        )


if __name__ == "__main__":
    main()
