#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The polynomial by which kernels/cuda/activation.cuh makes erf of tanh: tools/fit_gelu.py

x Phi(x) = h (1 + erf(x / sqrt 2)) with h = x / 2, and erf(x / sqrt 2) = tanh(h p(h^2)). p is fitted so that the greatest
error of the result, not that of p, is the least: by Gauss-Newton steps on least squares whose weights grow where the
error is great (C. L. Lawson, 1961). Prints, for each degree, coefficients and the error with an exact tanh.
"""
import math

STEP, END = 0.005, 9.0
POINTS = [STEP * i for i in range(1, int(END / STEP))]
HOLD = 1e-3  # of the weight of a point without error
ROUNDS = 400


def share(coefficients, h):
    """tanh(h p(h^2)); the lowest power comes first."""
    p = 0.0
    for coefficient in reversed(coefficients):
        p = p * h * h + coefficient
    return math.tanh(h * p)


def error(coefficients, x):
    return x / 2 * (share(coefficients, x / 2) - math.erf(x / math.sqrt(2)))


def solved(matrix, right):
    """By Gauss's elimination, with the greatest pivot of a column."""
    rows = [list(row) + [value] for row, value in zip(matrix, right)]
    for i in range(len(rows)):
        pivot = max(range(i, len(rows)), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for r in range(len(rows)):
            if r != i:
                factor = rows[r][i] / rows[i][i]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[i])]
    return [row[-1] / row[i] for i, row in enumerate(rows)]


def step(coefficients, weights):
    """Of Gauss and Newton: what to add to the coefficients, and the errors before."""
    count = len(coefficients)
    matrix, right, errors = [[0.0] * count for _ in range(count)], [0.0] * count, []
    for x, weight in zip(POINTS, weights):
        h, here = x / 2, error(coefficients, x)
        slope = h * (1 - share(coefficients, h) ** 2) * h  # of the result, by the first coefficient
        errors.append(abs(here))
        for i in range(count):
            right[i] -= weight * slope * h ** (2 * i) * here
            for j in range(count):
                matrix[i][j] += weight * slope * h ** (2 * i) * slope * h ** (2 * j)
    return solved(matrix, right), errors


def fitted(begin):
    coefficients, weights, best = begin, [1.0] * len(POINTS), None
    for _ in range(ROUNDS):
        change, errors = step(coefficients, weights)
        worst = max(errors)
        if best is None or worst < best[0]:
            best = worst, coefficients
        coefficients = [c + d for c, d in zip(coefficients, change)]
        weights = [w * math.sqrt(e / worst + HOLD) for w, e in zip(weights, errors)]
        scale = len(weights) / sum(weights)
        weights = [w * scale for w in weights]
    return best


def main():
    first = 2 * math.sqrt(2 / math.pi)
    tanh_form = [first, 4 * first * 0.044715]
    print(f"the tanh form of gelu, {tanh_form[0]:.9g} {tanh_form[1]:.9g}: "
          f"off from x Phi(x) by {max(abs(error(tanh_form, x)) for x in POINTS):.2g}")
    begin = tanh_form
    for terms in (2, 3):
        worst, begin = fitted(begin)
        print(f"{terms} terms, {' '.join(f'{c:.9g}' for c in begin)}: off by {worst:.2g}")
        begin = begin + [0.0]


if __name__ == "__main__":
    main()
