#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of docs/kernels/gemm.md from the result of bench_gemm.

usage: bench/gemm_table.py bench/results/COMMIT-CARD-gemm.json PREDICTED
PREDICTED: what `bench_gemm --predict RESULT` prints
Of an H100 only the sums over a layer. Of a result that was wrong, or of which nothing says how far it is off, no table is made.
"""

import sys

from collections import defaultdict

from pasted import ROOT, link, markdown, paste, read, results_named

PAGE = ROOT / "docs/kernels/gemm.md"
BLAS = "cublaslt"
BOUND = 2e-3  # of the relative error, as bench/agreement.cpp has it


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


def loss(group, predicted, column):
    """What taking the setting with the shortest predicted time loses against the best measured one."""
    chosen = min(range(len(group)), key=lambda i: predicted[i])
    return group[chosen][column] / min(row[column] for row in group) - 1


def percent(losses):
    return [f"{100 * sum(losses) / len(losses):.1f} %", f"{100 * max(losses):.0f} %"]


def choices(groups, now):
    """By what was predicted before the measurement and by what is predicted now, of settings that there still are."""
    found = defaultdict(lambda: defaultdict(list))
    for key, group in groups.items():
        predicted = [row["predicted_us"] for row in now[key]]
        if key[2] == "encoder":  # the choice of "epilogue", with a row kernel behind it
            continue
        for name in (key[2], "all"):
            found[name]["before"].append(loss(group, [row["predicted_us"] for row in group], "hot_us"))
            found[name]["hot"].append(loss(group, predicted, "hot_us"))
            found[name]["cold"].append(loss(group, predicted, "cold_us"))
            found[name]["ratio"] += [guess / row["hot_us"] for row, guess in zip(group, predicted)]
    lines = []
    for name in ("plain", "epilogue", "deferred", "all"):
        of = found[name]
        lines.append([name, str(len(of["hot"])), *percent(of["before"]), *percent(of["hot"]), *percent(of["cold"]),
                      f"{min(of['ratio']):.2f} to {max(of['ratio']):.2f}"])  # fmt: skip
    head = ["epilogue", "problems", "before: mean loss", "worst", "now: mean loss", "worst", "cold: mean loss", "worst",
            "predicted / measured"]  # fmt: skip
    return markdown(head, lines)


def wrong_in(rows):
    """Results that have no time, or whose time would not count, in words."""
    return [f"{row['rows']} rows, {row['shape']}, {row['pack']}, {row['setting']}: {row.get('wrong', 'relative error ' + str(row['error']))}"
            for row in rows if "wrong" in row or row["error"] is None or not row["error"] < BOUND]  # fmt: skip


def grouped(rows, there):
    groups = defaultdict(list)
    for row, still in zip(rows, there):
        if still:
            groups[row["rows"], row["shape"], row["pack"]].append(row)
    return groups


def main():
    path, predicted = results_named(__doc__, 2)
    report, now = read(path), read(predicted)["rows"]
    if wrong := wrong_in(report["rows"]):
        sys.exit("\n".join([f"{path} has wrong results:", *wrong]))
    # Of settings that were given up, results keep the times; those of the twin are not fitted to anything.
    there = ["predicted_us" in row and not row["setting"].startswith("mma") for row in now]
    groups = grouped(report["rows"], there)
    source = f"{link(path, PAGE)}: {report['device']}, cuBLASLt {report['cublaslt']}, {report['dtype']}.\n\n"
    if "H100" in report["device"]:
        paste(PAGE, "layer-h100", source + layer(groups))
        return
    paste(PAGE, "plain", source + plain(groups))
    paste(PAGE, "layer", layer(groups))
    paste(PAGE, "choices", choices(groups, grouped(now, there)))


if __name__ == "__main__":
    main()
