#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of capped scores in docs/benchmarks.md: STOF's times by forms of the cap, FlexAttention's beside them.

usage: bench/softcap_table.py SOFTCAP.json, with the rows of `times` by form and, in `peers`, what bench/peers/attention.py
--softcap wrote of the same problems. STOF's own rows there are of the polynomial, which the library does not have: they
only say how far the two runs are apart.
"""

from pasted import ROOT, link, markdown, paste, read, results_named
from report_tables import conditions
from report_values import best_peer, number, time_of

PAGE = ROOT / "docs/benchmarks.md"
KEPT, OTHERS = "exponentials", ["uncapped", "mma", "tanh.approx", "polynomial"]


def compared(times, rows):
    """The row of the same problem among those of the peers; None where it was not compared."""
    same = lambda row: (row["dtype"], row["shape"][3], row["mask"]) == (times["dtype"], times["d"], times["mask"])
    return next(filter(same, rows), None)


def line_of(times, row):
    us = {name: plan["us"] for name, plan in times["plans"].items()}
    kept = times["plans"][KEPT]
    line = [f"{times['dtype']} d {times['d']} `{times['mask']}`", kept["instance"], number(kept["predicted_us"]),
            number(us[KEPT]), *(number(us[name]) for name in OTHERS)]  # fmt: skip
    if row is None:
        return [*line, "-", "-", "-"]
    name, peer = best_peer(row, False)
    return [*line, name, number(peer), f"{peer / us[KEPT]:.2f}"]


def notes_of(data, rows):
    between = [times["plans"]["polynomial"]["us"] / time_of(row["peers"]["stof"]) for times, row in rows if row]
    spread = [f"{one['plans'][KEPT]['us']:.0f} ({one['deviation']:.0f})" for one in data["spread"]]
    error = [one["tanh.approx"] / one[KEPT] for one in data["accuracy"]]
    return [f"FlexAttention was timed in a second run: the polynomial, which is in both, took {min(between):.2f} to "
            f"{max(between):.2f} times as long in the first, which STOF's times are of.",
            f"By the scores' deviation, in brackets, causal f16 d 128 takes {', '.join(spread)} us.",
            f"The output's error against fp64 with tanh.approx is {min(error):.2f} to {max(error):.2f} times that with "
            f"{KEPT}, over {len(error)} cases."]  # fmt: skip


def main():
    [path] = results_named(__doc__)
    data = read(path)
    rows = [(times, compared(times, data["peers"]["rows"])) for times in data["times"]]
    head = ["problem", "instance", "predicted us", "STOF us", "uncapped", "mma_attention", "tanh.approx", "polynomial",
            "best FlexAttention", "us", "FlexAttention / STOF"]  # fmt: skip
    source = f"{link(path, PAGE)}: {conditions(data['peers'])}\n\n"
    notes = "\n".join(f"* {note}" for note in notes_of(data, rows))
    paste(PAGE, "softcap-gpu", source + markdown(head, [line_of(*row) for row in rows]) + "\n" + notes)


if __name__ == "__main__":
    main()
