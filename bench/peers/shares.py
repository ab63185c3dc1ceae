# SPDX-License-Identifier: Apache-2.0
"""Which rows of a comparison are measured together: parts on GPUs of their own, and processes that prepare them."""
from __future__ import annotations

import argparse


def dealt(kinds: list, indices: list, count: int) -> list[list]:
    """`indices` into `kinds`, in `count` lists in which each kind, whose kernels are compiled once, stands whole: the
    most numerous kinds first, each to the list that has least."""
    groups: dict = {}
    for index in indices:
        groups.setdefault(kinds[index], []).append(index)
    lists: list[list] = [[] for _ in range(count)]
    for group in sorted(groups.values(), key=len, reverse=True):
        min(lists, key=len).extend(group)
    return [sorted(one) for one in lists]


def part_of(text: str) -> tuple[int, int]:
    """"2/4": the second of four parts."""
    number, _, count = text.partition("/")
    if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text} is no part; say 1/4 for the first of four")
    return int(number) - 1, int(count)
