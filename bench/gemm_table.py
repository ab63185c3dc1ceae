#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of docs/kernels/gemm.md from the result of bench_gemm.

usage: bench/gemm_table.py bench/results/COMMIT-h200-gemm.json
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

from pasted import markdown, paste

PAGE = Path(__file__).resolve().parent.parent / "docs/kernels/gemm.md"
BLAS = "cublaslt"


def best(rows):
    return min(rows, key=lambda row: row["hot_us"])


def blas(rows):
    return next(row for row in rows if row["setting"] == BLAS)


def ours(rows):
    return best([row for row in rows if row["setting"] != BLAS])


def times(row):
    return f"{row['hot_us']:.2f} / {row['cold_us']:.2f}"


def short(setting):
    return setting.removeprefix("wgmma ").replace(" k64", "")


def plain(groups):
    lines = []
    for (rows, shape, pack), group in groups.items():
        if pack != "plain":
            continue
        library, kernel = blas(group), ours(group)
        lines.append([f"{rows:,}", shape, f"{kernel['columns']}, {kernel['inner']}", times(library), times(kernel),
                      f"{library['hot_us'] / kernel['hot_us']:.2f}", short(kernel["setting"])])  # fmt: skip
    return markdown(["rows", "linear", "out, in", "cuBLASLt", "ours", "ratio", "setting"], lines)


def layer(groups):
    """Sums over the four linears of a layer."""
    lines = []
    shapes = list(dict.fromkeys(shape for _, shape, _ in groups))
    for rows in dict.fromkeys(rows for rows, _, _ in groups):
        def total(pack, pick, column="hot_us"):
            chosen = [groups.get((rows, shape, pack)) or groups[rows, shape, "epilogue"] for shape in shapes]
            return sum(pick(group)[column] for group in chosen)

        library, deferred = total("encoder", blas), total("deferred", ours)
        lines.append([f"{rows:,}", f"{total('plain', blas):.1f}", f"{total('plain', ours):.1f}",
                      f"{total('epilogue', blas):.1f}", f"{total('epilogue', ours):.1f}", f"{library:.1f}",
                      f"{total('encoder', ours):.1f}", f"{deferred:.1f}", f"{library / deferred:.2f}",
                      f"{total('encoder', blas, 'cold_us') / total('deferred', ours, 'cold_us'):.2f}"])  # fmt: skip
    head = ["rows", "plain: cuBLASLt", "ours", "with epilogues: cuBLASLt", "ours", "and norms: cuBLASLt, row kernels",
            "ours, row kernels", "ours, deferred", "ratio", "ratio, cold"]  # fmt: skip
    return markdown(head, lines)


def choices(groups):
    """What taking the setting with the shortest predicted time loses against the best measured one."""
    losses = defaultdict(list)
    for (_, _, pack), group in groups.items():
        chosen = min(group, key=lambda row: row["predicted_us"])
        losses[pack].append((chosen["hot_us"] / best(group)["hot_us"] - 1, chosen["predicted_us"] / chosen["hot_us"]))
    lines = []
    for pack, found in losses.items():
        regret = [loss for loss, _ in found]
        ratios = sorted(ratio for _, ratio in found)
        lines.append([pack, str(len(found)), f"{100 * sum(regret) / len(regret):.1f} %", f"{100 * max(regret):.0f} %",
                      f"{ratios[0]:.2f} to {ratios[-1]:.2f}"])  # fmt: skip
    return markdown(["epilogue", "problems", "mean loss", "worst", "predicted / measured"], lines)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    path = Path(sys.argv[1])
    report = json.loads(path.read_text(encoding="utf-8"))
    groups = defaultdict(list)
    for row in report["rows"]:
        groups[row["rows"], row["shape"], row["pack"]].append(row)
    source = (f"[bench/results/{path.name}](../../bench/results/{path.name}): {report['device']}, cuBLASLt "
              f"{report['cublaslt']}, {report['dtype']}.\n\n")  # fmt: skip
    paste(PAGE, "plain", source + plain(groups))
    paste(PAGE, "layer", layer(groups))
    paste(PAGE, "choices", choices(groups))


if __name__ == "__main__":
    main()
