#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the coefficients of src/backend/cpu/attention/cost.cpp and reports the regret of the choice.

usage: fit_attention_cost.py fit CALIBRATION.json     coefficients, nanoseconds per unit of work
       fit_attention_cost.py regret CHECK.json        chosen plan against the fastest measured one
"""

import json
import math
import sys


def fit(samples, rounds=4000):
    """Non-negative least squares of relative error, one coordinate at a time."""
    terms = len(samples[0][0])
    rows = [([w * 1e-3 / us for w in work], 1.0) for work, us in samples]
    coefficients = [0.0] * terms
    residual = [-target for _, target in rows]
    norms = [sum(row[t] ** 2 for row, _ in rows) for t in range(terms)]
    for _ in range(rounds):
        for t in range(terms):
            if norms[t] == 0:
                continue
            slope = sum(row[t] * r for (row, _), r in zip(rows, residual))
            step = max(coefficients[t] - slope / norms[t], 0.0) - coefficients[t]
            coefficients[t] += step
            residual = [r + step * row[t] for (row, _), r in zip(rows, residual)]
    return coefficients, math.sqrt(sum(r * r for r in residual) / len(rows))


def report_fit(rows):
    groups = {}
    for row in rows:
        for plan in row["plans"]:
            groups.setdefault((plan["kernel"], row["dtype"]), []).append((plan["work"], plan["us"]))
    for (kernel, dtype), samples in sorted(groups.items()):
        coefficients, error = fit(samples)
        values = ", ".join(f"{value:.4g}" for value in coefficients)
        print(f"{kernel:24}{dtype:6}{{{values}}}  {len(samples)} samples, {100 * error:.1f} % error")


def report_regret(rows):
    found = []
    for row in rows:
        chosen = next(plan for plan in row["plans"] if plan["chosen"])
        best = min(row["plans"], key=lambda plan: plan["us"])
        found.append((chosen["us"] / best["us"] - 1, row, chosen, best))
    found.sort(key=lambda each: -each[0])
    print(f"{len(found)} problems, mean regret {100 * sum(each[0] for each in found) / len(found):.1f} %, worst:")
    for regret, row, chosen, best in found[:8]:
        what = f"{row['mask']} N {row['queries']} M {row['keys']} d {row['head_dim']} {row['dtype']}"
        print(f"  {100 * regret:5.1f} %  {what}: {name(chosen)} {chosen['us']:.0f} us, {name(best)} {best['us']:.0f} us")


def name(plan):
    return f"{plan['kernel']} {plan['block_q']}x{plan['block_kv']}" if plan["block_q"] else plan["kernel"]


def main(arguments):
    if len(arguments) != 2 or arguments[0] not in ("fit", "regret"):
        sys.exit(__doc__)
    with open(arguments[1], encoding="utf-8") as file:
        rows = json.load(file)["rows"]
    (report_fit if arguments[0] == "fit" else report_regret)(rows)


if __name__ == "__main__":
    main(sys.argv[1:])
