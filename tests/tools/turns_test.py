#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/peers/turns.py: nothing counts before the clock stays, what changes all rivals alike says nothing of one, and a
session without a kept plan is no rival."""

import sys
import tempfile
import types
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.modules.setdefault("torch", types.ModuleType("torch"))  # which rivals on a GPU need, and these do not
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench/peers"))
import turns  # noqa: E402


class Device:
    """Fast until it is warm, then 30 % slower; its time is the only one there is."""

    def __init__(self, warm_after):
        self.now, self.warm_after, self.order = 0.0, warm_after, []

    def rival(self, name, us):
        def once():
            took = us * (1.3 if self.now > self.warm_after else 1)
            self.now += turns.TURN_SECONDS
            self.order.append(name)
            return took

        return types.SimpleNamespace(once=once)

    def monotonic(self):
        return self.now


class Turns(unittest.TestCase):
    def in_turns(self, device, *rivals):
        before = turns.time
        turns.time = device
        self.addCleanup(setattr, turns, "time", before)
        return turns.in_turns(list(rivals))

    def test_nothing_counts_before_the_clock_stays(self):
        device = Device(warm_after=0.2)
        times, how = self.in_turns(device, device.rival(0, 100), device.rival(1, 50))
        self.assertEqual(times, [130, 65])
        self.assertGreater(how["windows"], 2)
        self.assertGreaterEqual(how["rounds"], turns.LEAST_ROUNDS)

    def test_every_second_round_is_backwards(self):
        device = Device(warm_after=0)
        self.in_turns(device, device.rival("a", 1), device.rival("b", 1), device.rival("c", 1))
        self.assertIn("".join(device.order[-6:]), ("abccba", "cbaabc"))

    def test_drift_is_taken_out(self):
        clock = [1, 1.1, 1.5, 0.9, 1]
        self.assertEqual(turns.without_drift([[10 * c, 9 * c] for c in clock]), [10, 9])
        self.assertEqual(turns.without_drift([[10 * c] for c in clock]), [10])

    def session(self, words):
        """One whose program says this."""
        program = Path(self.enterContext(tempfile.TemporaryDirectory())) / "program"
        program.write_text(f"#!/bin/sh\necho '{words}'\n")
        program.chmod(0o700)
        found = turns.Session(str(program), ("bert-base", "all", 1, 128), "f16", "cuda")
        for stream in (found.process.stdin, found.process.stdout, found.process.stderr):
            self.addCleanup(stream.close)
        self.addCleanup(found.process.wait)
        return found

    def test_a_session_runs_a_kept_plan_or_none(self):
        kept = self.session('{"kept": true, "origin": "tuned", "scheme": "01"}')
        self.assertEqual(kept.plan(), {"origin": "tuned", "scheme": "01"})
        with self.assertRaisesRegex(RuntimeError, "^bench_session_turns: no plan is kept for this call; its plan is analytical$"):
            self.session('{"kept": false, "origin": "analytical", "scheme": "01"}').plan()


if __name__ == "__main__":
    unittest.main()
