# SPDX-License-Identifier: Apache-2.0
"""Times of rivals in turns, once the clock stays: the protocol of src/runtime/turns.h, for rivals of several programs.

A GPU that its power limits is fast for some tenths of a second and slower from then on. In turns, one behind the other
without a pause, all rivals have the clock that their sum leaves; a turn is long beside what changing over takes.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import time

import torch

TURN_SECONDS = 0.05
WINDOW_SECONDS = 0.15
MOST_WINDOWS = 8
STEADY = 0.005
LEAST_ROUNDS, MOST_ROUNDS = 9, 60
SECONDS = 0.3  # of timing each rival, in the mean


class Replayed:
    """A call of torch's, by replaying a recording of some of them."""

    def __init__(self, run):
        self.stream = torch.cuda.Stream()
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                run()
            self.stream.synchronize()
            self.graph = self.recorded(run, 1)
            self.calls, self.replays = 1, 1
            us = self.once()
            self.calls = max(1, min(20, round(2000 / us)))
            if self.calls > 1:
                self.graph = self.recorded(run, self.calls)
            self.replays = max(1, round(1e6 * TURN_SECONDS / (us * self.calls)))

    def recorded(self, run, calls):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            for _ in range(calls):
                run()
        return graph

    def once(self):
        """Microseconds of a call, of one turn."""
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        with torch.cuda.stream(self.stream):
            begin.record()
            for _ in range(self.replays):
                self.graph.replay()
            end.record()
        end.synchronize()
        return 1000 * begin.elapsed_time(end) / (self.calls * self.replays)


class Queued:
    """A call of torch's that replays graphs of its own: many of them one behind the other, behind work that keeps the device
    busy until all are in its queue."""

    CYCLES_A_SECOND = 2e9

    def __init__(self, run):
        self.run, self.calls, self.busy_seconds = run, 5, 0.01
        for _ in range(2):
            us = self.once()
        self.calls = max(2, round(1e6 * TURN_SECONDS / us))
        begin = time.perf_counter()
        self.once()
        self.busy_seconds = max(0.002, 1.2 * (self.said - begin))  # what saying it took the host

    def once(self):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(int(self.busy_seconds * self.CYCLES_A_SECOND))
        begin.record()
        for _ in range(self.calls):
            self.run()
        end.record()
        self.said = time.perf_counter()
        end.synchronize()
        return 1000 * begin.elapsed_time(end) / self.calls


class OnHost:
    """Where there is no device: a try of the same steps."""

    def __init__(self, run):
        self.run = run

    def once(self):
        begin = time.perf_counter()
        self.run()
        return 1e6 * (time.perf_counter() - begin)


class Session:
    """STOF's plan for calls of one size, in bench_session_turns: a process that is told when to go."""

    def __init__(self, program, place, dtype, device):
        name, mask, batch, length = place
        self.process = subprocess.Popen(
            [program, name, str(batch), str(length), mask, str(TURN_SECONDS), dtype, device],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip

    def line(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"bench_session_turns: {self.process.stderr.read().strip()}")
        return line

    def plan(self):
        """The kept plan that it runs, once it is ready. Raises RuntimeError where it has none and does without."""
        plan = json.loads(self.line())
        if not plan.pop("kept"):
            raise RuntimeError(f"bench_session_turns: no plan is kept for this call; its plan is {plan['origin']}")
        return plan

    def once(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return float(self.line())

    def close(self):
        self.process.communicate()  # closes its input, whether it has ended by itself or not


def round_of(rivals, number):
    """Every second one backwards: nobody has always the same one in front of it."""
    order = range(len(rivals)) if number % 2 == 0 else reversed(range(len(rivals)))
    times = {i: rivals[i].once() for i in order}
    return [times[i] for i in range(len(rivals))]


def window(rivals, seconds):
    sums, end = [], time.monotonic() + seconds
    while not sums or time.monotonic() < end:
        sums.append(sum(round_of(rivals, len(sums))))
    return statistics.median(sums)


def settle(rivals, seconds=WINDOW_SECONDS):
    """How many windows it took until one was as long as the one before."""
    before = window(rivals, seconds)
    for number in range(2, MOST_WINDOWS + 1):
        after = window(rivals, seconds)
        if abs(after - before) <= STEADY * before:
            return number
        before = after
    return MOST_WINDOWS


def without_drift(rounds):
    """Each rival's median, as if every round had taken as long as the median one."""
    sums = [sum(times) for times in rounds]
    usual = statistics.median(sums)
    even = [[us * usual / total for us in times] for times, total in zip(rounds, sums, strict=True)]
    return [statistics.median(times) for times in zip(*(even if len(rounds[0]) > 1 else rounds), strict=True)]


def in_turns(rivals, seconds=SECONDS):
    """Microseconds of each, windows until the clock stayed, rounds that counted, and how far the middle half of the rounds is
    apart."""
    windows = settle(rivals)
    rounds, end = [], time.monotonic() + seconds * len(rivals)
    while len(rounds) < LEAST_ROUNDS or (len(rounds) < MOST_ROUNDS and time.monotonic() < end):
        rounds.append(round_of(rivals, len(rounds)))
    low, usual, high = statistics.quantiles([sum(times) for times in rounds], n=4)
    return without_drift(rounds), {"windows": windows, "rounds": len(rounds), "spread": (high - low) / usual}
