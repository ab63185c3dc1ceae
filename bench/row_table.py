#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of row kernels in docs/kernels/session.md: what was predicted, and beside it what was measured, if anything was.

usage: bench/row_table.py ROWS.json, which bench_rows writes; its "protocol" says what its times are
"""

from pasted import ROOT, link, markdown, paste, read, results_named

PAGE = ROOT / "docs/kernels/session.md"
TABLES = {
    "norms-of-decoders": ["rms_norm_kernel", "row_norm_kernel", "rotate_normed_kernel"],
    "halves-and-sums": ["turn_heads_kernel", "gate_kernel", "add_rows_kernel"],
    "copies": ["copy_rows_kernel"],
}
STATES = ["hot_us", "to_and_fro_us", "rotating_us"]
HEAD = ["kernel", "rows", "of a row", "moved", "predicted, us"]


def size(count):
    return f"{1e-6 * count:.1f} MB" if count >= 1e6 else f"{1e-3 * count:.0f} KB"


def line_of(row):
    kernel = f"`{row['kernel']}`" + (f", {row['way']}" if row["way"] else "")
    count, unit = row["of_row"].split(" ", 1)
    line = [kernel, f"{row['rows']:,}", f"{int(count):,} {unit}", size(row["bytes"]), f"{row['predicted_us']:.1f}"]
    if "times" not in row:
        return line
    times = row["times"]
    return [*line, " / ".join(f"{times[state]:.2f}" if state in times else "-" for state in STATES),
            f"{1e-6 * row['bytes'] / times['rotating_us']:.2f}"]  # fmt: skip


def table_of(rows):
    measured = ["hot / to and fro / rotating, us", "TB/s, rotating"] if "times" in rows[0] else []
    return markdown(HEAD + measured, map(line_of, rows))


def main():
    [path] = results_named(__doc__)
    report = read(path)
    said = "predicted, and nothing measured yet."
    if "commit" in report:
        said = (f"{report['device']}, {report['dtype']}, driver {report['driver']}, of {report['commit']}; hot: the same buffers; to and "
                "fro: reading what the launch in front wrote, where rows fit; rotating: through buffers that no cache holds.")  # fmt: skip
    for mark, kernels in TABLES.items():
        rows = [row for row in report["rows"] if row["kernel"] in kernels]
        if rows:  # bench_rows can be asked for some kernels
            paste(PAGE, mark, f"{link(path, PAGE)}: {said}\n\n{table_of(rows)}")


if __name__ == "__main__":
    main()
