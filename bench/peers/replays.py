# SPDX-License-Identifier: Apache-2.0
"""Device times of several contenders, by CUDA-graph replay and in turns: what the clock does falls on all of them."""
from __future__ import annotations

import functools
import math
import statistics
import time

import torch

LAUNCHES, REPLAYS = 20, 21
REST_S = 0.3  # before a series: short runs at the clock that a GPU has after a rest
STEADY_S = 1.0  # of the same work before a series: the clock that it lasts at


@functools.cache
def capture_stream():
    """The same for all: what a contender keeps for a stream it makes once."""
    return torch.cuda.Stream()


class Replay:
    """A graph of launches over the given sets, one after the other."""

    def __init__(self, launch, indices, keep):
        self.launches = len(indices)
        stream = capture_stream()
        with torch.cuda.stream(stream):
            for i in dict.fromkeys(indices):
                launch(i)
            stream.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            kept = []  # outputs that live on have memory of their own
            with torch.cuda.graph(self.graph, stream=stream):
                for i in indices:
                    if len(kept) >= keep:
                        kept.pop(0)
                    kept.append(launch(i))
            kept.clear()

    def once(self) -> float:
        """us a launch"""
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        self.graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1000 / self.launches


class Waited:
    """A call as a program makes it, without a graph, and the wait for its end."""

    def __init__(self, launch):
        self.launch = launch
        launch(0)

    def once(self) -> float:
        """us"""
        torch.cuda.synchronize()
        begin = time.perf_counter()
        self.launch(0)
        torch.cuda.synchronize()
        return 1e6 * (time.perf_counter() - begin)


def hot(launch) -> Replay:
    return Replay(launch, [0] * LAUNCHES, keep=1)


def cold(launch, sets) -> Replay:
    """As many sets as fill the L2 cache more than twice."""
    cache = torch.cuda.get_device_properties(0).L2_cache_size
    count = 2 + math.ceil(2 * cache / sets.bytes())
    return Replay(launch, [i % count for i in range(max(LAUNCHES, count))], keep=count)


def in_turns(replays: dict, rounds: int, steady=False) -> dict:
    """Median us of each: after a rest, or after as long a time of the same work as settles the clock."""
    torch.cuda.synchronize()
    if not steady:
        time.sleep(REST_S)
    begin = time.monotonic()
    times: dict = {name: [] for name in replays}
    for _ in range(2):  # not counted
        turn(replays, times)
    while replays and steady and time.monotonic() - begin < STEADY_S:
        turn(replays, times)
    for _ in range(rounds):
        turn(replays, times)
    return {name: statistics.median(taken[-rounds:]) for name, taken in times.items()}


def turn(replays: dict, times: dict):
    for name, replay in replays.items():
        times[name].append(replay.once())


def clock_mhz() -> int | None:
    """Of the multiprocessors now, where the driver's library can be asked."""
    try:
        return torch.cuda.clock_rate()
    except Exception:  # its Python package is not everywhere
        return None


def screened(replays: dict) -> dict:
    """A first look: the least of three."""
    return {name: min(replay.once() for _ in range(3)) for name, replay in replays.items()}
