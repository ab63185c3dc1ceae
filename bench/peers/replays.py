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


def hot(launch) -> Replay:
    return Replay(launch, [0] * LAUNCHES, keep=1)


def cold(launch, sets) -> Replay:
    """As many sets as fill the L2 cache more than twice."""
    cache = torch.cuda.get_device_properties(0).L2_cache_size
    count = 2 + math.ceil(2 * cache / sets.bytes())
    return Replay(launch, [i % count for i in range(max(LAUNCHES, count))], keep=count)


def in_turns(replays: dict, rounds: int) -> dict:
    """Median us of each."""
    torch.cuda.synchronize()
    time.sleep(REST_S)
    times: dict = {name: [] for name in replays}
    for _ in range(2 + rounds):
        for name, replay in replays.items():
            times[name].append(replay.once())
    return {name: statistics.median(taken[2:]) for name, taken in times.items()}


def screened(replays: dict) -> dict:
    """A first look: the least of three."""
    return {name: min(replay.once() for _ in range(3)) for name, replay in replays.items()}
