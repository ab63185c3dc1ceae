#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of capped scores in docs/benchmarks.md: every plan of a problem, timed, and FlexAttention beside STOF.

usage: bench/softcap_table.py PLANS.json PEERS.json, as `stof calibrate --device cuda --regret --softcap 50 --json` and
bench/peers/attention.py --softcap 50 wrote them; the second may be part of a file, under "peers".
"""

from pasted import ROOT, link, markdown, paste, read, results_named
from report_tables import conditions
from report_values import best_peer, number

PAGE = ROOT / "docs/benchmarks.md"


def least(plans, accepted):
    """The fastest of those plans that were timed; None where none was."""
    return min((plan for plan in plans if "us" in plan and accepted(plan)), key=lambda plan: plan["us"], default=None)


def us_of(plan):
    return number(plan["us"]) if plan else "-"


def compared(row, peers):
    """The same problem among those of the peers; None where it was not compared."""
    batch, heads, _, queries, _, head_dim = row["shape"]
    key = ([batch, heads, queries, head_dim], row["dtype"], row["mask"])
    return next((peer for peer in peers if (peer["shape"], peer["dtype"], peer["mask"]) == key), None)


def line_of(row, peer):
    plans = row["plans"]
    chosen, fastest = least(plans, lambda plan: plan["chosen"]), least(plans, lambda plan: True)
    once = least(plans, lambda plan: plan["instance"].endswith("_q1"))
    mma = least(plans, lambda plan: plan["kernel"] == "mma_attention")
    line = [f"{row['dtype']} d {row['shape'][5]} `{row['mask']}`", chosen["instance"], number(chosen["predicted_us"]),
            us_of(chosen), fastest["instance"], us_of(fastest), us_of(once), us_of(mma)]  # fmt: skip
    best = best_peer(peer, False) if peer else None
    return [*line, *((best[0], number(best[1]), f"{best[1] / chosen['us']:.2f}") if best else "---")]


def main():
    paths = results_named(__doc__, 2)
    plans, peers = map(read, paths)
    peers = peers.get("peers", peers)
    head = ["problem", "chosen", "predicted us", "us", "fastest", "us", "with q once, us", "mma_attention, us",
            "best FlexAttention", "us", "FlexAttention / STOF"]  # fmt: skip
    table = markdown(head, [line_of(row, compared(row, peers["rows"])) for row in plans["rows"]])
    source = f"{', '.join(link(path, PAGE) for path in paths)}: {conditions(plans)} FlexAttention: {conditions(peers)}"
    loss = f"* The choice loses {100 * plans['mean_regret']:.1f} % on the average and {100 * plans['worst_regret']:.1f} % at worst."
    paste(PAGE, "softcap-gpu", f"{source}\n\n{table}\n{loss}")


if __name__ == "__main__":
    main()
