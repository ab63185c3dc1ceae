#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of products of few rows in docs/kernels/gemv.md: cuBLASLt with row kernels around it beside one kernel.

usage: bench/gemv_table.py GEMV.json, which bench_gemv writes
"""

from pasted import ROOT, link, markdown, paste, read, results_named

PAGE = ROOT / "docs/kernels/gemv.md"
BYTES_PER_US = 4.4e6  # that the largest of the products reaches: the floor of the others
HEAD = ["model", "product", "rows", "weight", "floor, us", "apart, us", "cuBLASLt alone, us", "gemv 8 / 16 / 32, us", "predicted best", "apart / chosen"]


def what(row):
    parts = [word for word in ("norm", "gate", "residual") if row[word]]
    return f"{row['product']}: {row['inner']:,} to {row['columns']:,}" + (f", {', '.join(parts)}" if parts else "")


def line_of(row):
    floor = row["weight_bytes"] / BYTES_PER_US
    line = [row["model"], what(row), str(row["rows"]), f"{1e-6 * row['weight_bytes']:.1f} MB", f"{floor:.1f}",
            f"{row['apart_us']:.1f}", f"{row['blas_us']:.1f}"]  # fmt: skip
    times, predicted = row.get("us", {}), row.get("predicted_us", {})
    if not times:
        return [*line, "not taken", "", ""]
    chosen = min(predicted, key=predicted.get)
    each = [f"{times[name]:.1f}" if (name := f"gemv {columns}") in times else "-" for columns in (8, 16, 32)]
    return [*line, " / ".join(each), f"{chosen.split()[1]}: {predicted[chosen]:.1f}", f"{row['apart_us'] / times[chosen]:.2f}"]


def main():
    [path] = results_named(__doc__)
    report = read(path)
    wrong = [row for row in report["rows"] if "wrong" in row]
    if wrong:
        raise SystemExit(f"{path}: {len(wrong)} rows have wrong results: no table")
    said = (f"{report['device']}, {report['dtype']}, cuBLASLt {report['cublaslt']}, of {report['commit']}: device time of one in a graph of many, whose weights, "
            f"{report['weights_bytes'] >> 20} MB or two of them, take turns. Apart: a norm by itself, cuBLASLt's product, gate or sum by itself; floor: the weight at "
            f"{1e-6 * BYTES_PER_US:.1f} TB/s.")  # fmt: skip
    paste(PAGE, "gemv", f"{link(path, PAGE)}: {said}\n\n{markdown(HEAD, map(line_of, report['rows']))}")


if __name__ == "__main__":
    main()
