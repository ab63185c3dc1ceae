#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of docs/benchmarks.md that say what whole encoders on the CPU are kept from the matmul peak by.

usage: bench/split_table.py MODEL.json, as `stof bench model --split --json` writes it
"""

from pasted import ROOT, link, markdown, paste, read, results_named
from report_tables import conditions
from report_values import milliseconds

PAGE = ROOT / "docs/benchmarks.md"
PARTS = {"linear": "products", "attend_packed": "attention"}  # the others are rows: embedding and norms


def part_of(step):
    return PARTS.get(step["work"].split()[0], "rows")


def peak_of(row, roofline):
    """GFLOP/s of the matmul that took turns with the calls; of the run's best where none did."""
    return row["split"].get("matmul_gflops") or roofline[f"matmul_{row['dtype']}_gflops"]


def lost(row, peak):
    """Microseconds of a call beyond its operations at the peak, {part: us}; with "at the peak" they add up to the call."""
    split, us = row["split"], {"products": 0, "activation": 0, "attention": 0, "rows": 0}
    for step in split["steps"]:
        us["activation"] += step["activation_us"]
        us[part_of(step)] += step["us"] - step["activation_us"] - 1e6 * step["gflop"] / peak
    ideal = sum(1e6 * step["gflop"] / peak for step in split["steps"])
    return {"at the peak": ideal, **us, "between steps": split["whole_us"] - ideal - sum(us.values())}


def name_of(row):
    return f"({row['shape'][0]},{row['shape'][1]}) `{row['mask']}` {row['dtype']}"


def losses(rows, roofline):
    head, table = None, []
    for row in rows:
        whole = row["split"]["whole_us"]
        parts = lost(row, peak_of(row, roofline))
        head = ["encoder", "call, ms", *parts, "threads that wait"]
        table.append([name_of(row), milliseconds(whole), *(f"{100 * us / whole:.1f} %" for us in parts.values()),
                      f"{100 * (1 - row['split']['busy']):.1f} %"])  # fmt: skip
    return markdown(head, table)


def shares(rows, roofline):
    """Of the peak, by each step that multiplies, its activation left out."""
    works = list(dict.fromkeys(step["work"] for row in rows for step in row["split"]["steps"] if step["gflop"]))
    merged = {work: work if work.startswith("linear") else "attention" for work in works}
    table = []
    for row in rows:
        peak = peak_of(row, roofline)
        found = {merged[step["work"]]: 1e6 * step["gflop"] / peak / (step["us"] - step["activation_us"])
                 for step in row["split"]["steps"] if step["gflop"]}  # fmt: skip
        table.append([name_of(row), *(f"{found[work]:.2f}" for work in dict.fromkeys(merged.values()))])
    return markdown(["encoder", *dict.fromkeys(f"`{work}`" for work in merged.values())], table)


def main():
    [path] = results_named(__doc__)
    data = read(path)
    rows = [row for row in data["rows"] if "split" in row]
    source = f"{link(path, PAGE)}: {conditions(data)}\n\n"
    paste(PAGE, "model-split", source + losses(rows, data["roofline"]) + "\n" + shares(rows, data["roofline"]))


if __name__ == "__main__":
    main()
