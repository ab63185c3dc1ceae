#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of ragged batches in docs/kernels/ragged.md.

usage: bench/ragged_table.py FILE.json, as bench/peers/ragged.py wrote it with --beside
"""

from pasted import ROOT, link, markdown, paste, read, results_named
from report_values import number

PAGE = ROOT / "docs/kernels/ragged.md"
WAYS = ("plain", "host", "device", "padded host", "padded device")


def cell(row, way):
    if way not in row["us"]:
        return "-"
    return f"{number(row['us'][way]['before'])} {number(row['us'][way]['after'])} ({row['before_over_after'][way]:.3f})"


def line_of(row):
    heads = f"{row['heads']}/{row['kv_heads']}" if row["heads"] != row["kv_heads"] else f"{row['heads']}"
    what = f"{row['case']}: {row['items']} of {row['planned']}, {row['rows'] / row['items'] / row['planned']:.0%} there"
    return [what, f"`{row['mask']}`", heads, str(row["head_dim"]), *(cell(row, way) for way in WAYS)]


def main():
    (path,) = results_named(__doc__)
    results = read(path)
    about = results["about"]
    after, before = about["commits"]
    head = ["items", "mask", "heads", "d", "no lists", "packed, host", "packed, device", "padded, host", "padded, device"]
    said = (f"{link(path, PAGE)}: {about['device']}, CUDA {about['cuda']}; us of {before}, of {after} and their ratio, the median of "
            f"{about['rounds']} rounds in which all took turns.")  # fmt: skip
    paste(PAGE, "ragged", f"{said}\n\n{markdown(head, [line_of(row) for row in results['rows']])}")


if __name__ == "__main__":
    main()
