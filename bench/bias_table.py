#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of docs/kernels/bias.md: attention with relative biases, without them, and peers.

usage: bench/bias_table.py FILE.json, as bench/peers/attention.py --bias wrote it
"""

import math

from pasted import ROOT, link, markdown, paste, read, results_named
from report_failures import failures
from report_gpu import named
from report_tables import conditions
from report_values import best_peer, number, ratio, time_of

PAGE = ROOT / "docs/kernels/bias.md"
WAYS = {"FlexAttention, table": ("flex128_table", "flex64_table"), "FlexAttention, slopes": ("flex128_linear", "flex64_linear"),
        "SDPA, all pairs": ("sdpa_dense_efficient", "sdpa_dense_cudnn")}  # fmt: skip


def least(row, names):
    """us of the fastest of these; None where none was timed."""
    times = [time_of(row["peers"][name]) for name in names if name in row["peers"]]
    return min((us for us in times if us is not None), default=None)


def cost(row):
    """How many times longer the same problem takes with its bias; None where one of both has no time."""
    without = least(row, ["stof_unbiased"])
    return least(row, ["stof"]) / without if without and least(row, ["stof"]) else None


def line_of(row):
    text = lambda us: number(us) if us else "-"
    share = lambda value: f"{value:.2f}" if value else "-"
    ours, without = (row["peers"].get(name, {}) for name in ("stof", "stof_unbiased"))
    best = best_peer(row, False)
    return [f"{named(row)} {row['bias']}", ours.get("instance") or ours.get("kernel", "-"), text(ours.get("predicted_us")), text(time_of(ours)),
            text(time_of(without)), share(cost(row)), *(text(least(row, names)) for names in WAYS.values()), best[0] if best else "-",
            share(ratio(row))]  # fmt: skip


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def notes(rows):
    found = []
    for kind in ("buckets", "alibi"):
        of_kind = [row for row in rows if row["bias"].startswith(kind)]
        ratios = [(ratio(row), named(row)) for row in of_kind if ratio(row)]
        costs = [(cost(row), named(row)) for row in of_kind if cost(row)]
        if ratios:
            found.append(f"{kind}: {len(ratios)} rows, best peer / STOF, geometric mean {mean([one for one, _ in ratios]):.2f}, "
                         f"least {min(ratios)[0]:.2f} ({min(ratios)[1]})")  # fmt: skip
        if costs:
            found.append(f"{kind}: with the bias / without, geometric mean {mean([one for one, _ in costs]):.2f}, "
                         f"most {max(costs)[0]:.2f} ({max(costs)[1]})")  # fmt: skip
    return found + failures(rows)


def main():
    (path,) = results_named(__doc__)
    results = read(path)
    head = ["problem", "STOF", "predicted us", "us", "without bias, us", "with / without", *(f"{way}, us" for way in WAYS), "best peer",
            "best peer / STOF"]  # fmt: skip
    table = markdown(head, [line_of(row) for row in results["rows"]])
    listed = "\n".join(f"* {note}" for note in notes(results["rows"]))
    paste(PAGE, "bias", f"{link(path, PAGE)}: {conditions(results)}\n\n{table}\n{listed}")


if __name__ == "__main__":
    main()
