# SPDX-License-Identifier: Apache-2.0
"""Rounds in which contenders on the CPU take turns: how many there are, who is asked again, and what they come to."""
from __future__ import annotations

import statistics

ROUNDS = 3  # the middle one counts: others may use the machine in one
SHORT, SHORT_ROUNDS = 1024, 5  # calls of so few tokens: more and shorter turns, so that all see the same moments
SLOW = 1.3  # so many times the time of the best of its type: not asked again
BESIDE = ("share_of_matmul_beside", "matmul_beside_gflops")  # of STOF's own rows


def turns_of(shape, seconds):
    """(rounds, seconds in each) for calls of so many (texts, tokens) that get `seconds` in each of ROUNDS."""
    if shape[0] * shape[1] > SHORT:
        return ROUNDS, seconds
    return SHORT_ROUNDS, seconds * ROUNDS / SHORT_ROUNDS


def joined(rounds):
    """Each round counts alike, whoever made more calls in it."""
    return {"median_us": statistics.median(one["median_us"] for one in rounds),
            "best_us": min(one["best_us"] for one in rounds), "calls": sum(one["calls"] for one in rounds),
            "rounds": len(rounds),
            **{key: statistics.median(one[key] for one in rounds) for key in BESIDE if key in rounds[0]}}  # fmt: skip


def asked_again(names, rounds):
    """Of contenders those that may still turn out to be the best of their type."""
    times = {name: joined(rounds[name])["median_us"] for name in names if name in rounds}

    def best_beside(name):
        return min(us for other, us in times.items() if other.split()[1] == name.split()[1])

    return [name for name in names if name not in times or times[name] <= SLOW * best_beside(name)]
