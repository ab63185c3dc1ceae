#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of docs/kernels/stacked-heads.md: what problems of few queries whose heads share keys must take, and took.

usage: bench/stacked_table.py FILE.json, as `stof calibrate --device cuda --regret --grouped --json` wrote it; what is chosen
is what it found then, or with --times since
"""

from gpu_rates import MATMUL_TFLOP_PER_S, copy_rate
from pasted import ROOT, link, markdown, paste, read, results_named
from report_tables import conditions
from report_values import number

PAGE = ROOT / "docs/kernels/stacked-heads.md"
TILE = 64  # rows
MOST_STACKED = 8
SEE_ALL = ("all", "causal")  # masks of which row blocks of the last rows touch all keys but a few


def floors_of(row, device):
    """us: q, keys, values and output, copied once; tiles of 64 rows of one head, and of stacked heads, multiplied."""
    batch, heads, kv_heads, queries, keys, head_dim = row["shape"]
    group = heads // kv_heads
    stacked = max(n for n in range(1, MOST_STACKED + 1) if group % n == 0)
    positions = TILE // stacked
    copied = 2 * batch * head_dim * (2 * heads * queries + 2 * kv_heads * keys) / copy_rate(device) / 1e6
    per_row_us = 4 * keys * head_dim / MATMUL_TFLOP_PER_S / 1e6
    rows = lambda positions, heads_of_tile: batch * heads // heads_of_tile * -(-queries // positions) * TILE
    return [copied, rows(TILE, 1) * per_row_us, rows(positions, stacked) * per_row_us]


def least(plans, accepted):
    """The fastest of those plans that were timed; None where none was."""
    return min((plan for plan in plans if "us" in plan and accepted(plan)), key=lambda plan: plan["us"], default=None)


def is_stacked(plan):
    return plan["instance"].endswith("_stacked")


def line_of(row, regret, device):
    batch, heads, kv_heads, queries, keys, head_dim = row["shape"]
    plans = row["plans"]
    stacked, others = least(plans, is_stacked), least(plans, lambda plan: not is_stacked(plan))
    floors = [number(us) for us in floors_of(row, device)] if row["mask"] in SEE_ALL else ["-"] * 3
    what = f"{batch} x {heads}/{kv_heads}, {queries} on {keys:,}, d {head_dim} {row['dtype']} `{row['mask']}`"
    return [what.replace("|", r"\|"), *floors, number(others["us"]), others["instance"], number(stacked["us"]),
            stacked["instance"], f"{others['us'] / stacked['us']:.2f}", regret["chosen"], number(regret["chosen_us"]),
            f"{regret['chosen_us'] / regret['best_us']:.2f}"]  # fmt: skip


def main():
    (path,) = results_named(__doc__)
    results = read(path)
    head = ["items x heads/key heads, queries on keys", "copied once, us", "tiles of one head", "tiles of stacked heads",
            "fastest of one head, us", "by", "fastest of stacked heads, us", "by", "ratio", "chosen / parts", "us",
            "chosen / fastest"]  # fmt: skip
    regrets = {regret["id"]: regret for regret in results["regrets"]}
    table = markdown(head, [line_of(row, regrets[row["id"]], results["device"]) for row in results["rows"]])
    loss = f"* The choice loses {100 * results['mean_regret']:.1f} % on the average and {100 * results['worst_regret']:.1f} % at worst."
    paste(PAGE, "stacked", f"{link(path, PAGE)}: {conditions(results)}\n\n{table}\n{loss}")


if __name__ == "__main__":
    main()
