#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of layer norms in docs/kernels/session.md: by the kernel before, by the one that is kept, and whole models by both.

usage: bench/norm_table.py NORMS.json, which bench_norms writes but for times of whole models, if there are any; its "protocol" says
what its times are
"""

from pasted import ROOT, link, markdown, paste, read, results_named

PAGE = ROOT / "docs/kernels/session.md"
KEPT = {384: "c4", 768: "c4", 1024: "c3"}  # what c109337 kept, by columns; rows of bench_norms say so themselves
STATES = ["hot_us", "to_and_fro_us", "rotating_us"]


def cell(times):
    return " / ".join(f"{times[state]:.2f}" for state in STATES)


def line_of(row):
    before, now = row["times"]["sum_norm"], row["times"][row.get("kept") or KEPT[row["columns"]]]
    moved = 4 * row["rows"] * row["columns"]  # read and written, in 16 bits
    return [f"{row['rows']:,}", f"{row['columns']:,}", cell(before), cell(now), f"{1e-6 * moved / now['rotating_us']:.2f}"]


def whole_of(row):
    texts, longest = row["shape"]
    return [row["model"], f"`{row['mask']}`", f"{texts:,} x {longest:,}", f"`{row['scheme']}`", f"{row['before_us']:,.0f}",
            f"{row['us']:,.0f}", f"{row['before_us'] / row['us']:.3f}"]  # fmt: skip


def main():
    [path] = results_named(__doc__)
    report = read(path)
    norms = markdown(["rows", "columns", "before", "now", "TB/s, rotating"], map(line_of, report["rows"]))
    driver = f", driver {report['driver']}" if "driver" in report else ""
    text = (f"{link(path, PAGE)}: {report['device']}, {report['dtype']}{driver}, of {report['commit']}; us, "
            f"hot / reading what the launch in front wrote / rotating through 32 pairs of buffers or 400 MB.\n\n{norms}")  # fmt: skip
    if "whole" in report:
        whole = markdown(["model", "mask", "texts x tokens", "scheme", "before", "now", "before / now"], map(whole_of, report["whole"]))
        text += f"\nWhole models by one plan and both kernels, in turns, device time in us:\n\n{whole}"
    paste(PAGE, "norms", text)


if __name__ == "__main__":
    main()
