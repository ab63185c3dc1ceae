#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/peers/cpu_run.py: contenders take turns, one that is far behind does not take the others' rounds, and rounds end."""

import sys
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench/peers"))
import cpu_run  # noqa: E402


class Clock:
    """Time passes while contenders run, and in no other way but by sleeping."""

    def __init__(self):
        self.now, self.order = 0.0, []

    def contender(self, name, seconds):
        def run():
            self.order.append(name)
            self.now += seconds

        return run

    def sleep(self, seconds):
        self.now += seconds

    def perf_counter(self):
        return self.now

    monotonic = perf_counter


class Rounds(unittest.TestCase):
    def measured(self, seconds, **contenders):
        self.clock = Clock()
        with mock.patch.object(cpu_run, "time", self.clock):
            return cpu_run.rounds({name: self.clock.contender(name, s) for name, s in contenders.items()}, seconds)

    def test_one_far_behind_leaves_the_rounds_to_the_others(self):
        times = self.measured(1, ours=0.02, near=0.15, slow=2)
        self.assertEqual(times["slow"]["calls"], 1)
        self.assertEqual(times["ours"]["calls"], times["near"]["calls"])
        self.assertGreaterEqual(times["ours"]["calls"], 15)
        self.assertAlmostEqual(times["slow"]["median_us"], 2e6)

    def test_turns_are_kept_and_the_first_run_is_not_counted(self):
        self.measured(0.5, a=0.1, b=0.1)
        self.assertEqual(self.clock.order[:4], ["a", "a", "b", "b"])

    def test_long_calls_end(self):
        times = self.measured(1, ours=2, near=3)
        self.assertEqual(times["ours"]["calls"], 2)  # 10 s a round: past 12 s after the second
        self.assertLess(self.clock.now, 24)


if __name__ == "__main__":
    unittest.main()
