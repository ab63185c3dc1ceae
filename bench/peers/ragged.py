#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ragged batches on a GPU through libstof.so, under a plan for the longest item that may come: padded or packed, with lists
of the host or of the device. With --beside an earlier library takes turns with it, in the same tensors. Before
any of a case is timed each output, NaN before, is compared with fp32, item by item: a wrong one ends the program.

usage: ragged.py LIBSTOF.SO [--beside OTHER.SO --commits OF_IT OF_OTHER] [--case NAME]... [--rounds N] [--out FILE.json]
"""

import argparse
import ctypes as c
import json
import random
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

import masks
import timing
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
from stof import c_library  # noqa: E402

TURN_US = 4000  # of a graph that is replayed
SEEN = 48  # rows at each end of an item that are compared with fp32, and so many others


@dataclass
class Case:
    name: str
    mask: str
    planned: int  # longest item
    lengths: list
    heads: int = 12
    kv_heads: int = 12
    dim: int = 64
    ways: tuple = ("host", "device")


def drawn(count, least, most, seed=1):
    rng = random.Random(seed)
    return [rng.randint(least, most) for _ in range(count)]


MIXED = [4096, 100, 2000, 37, 512, 3000, 64, 1, 900, 250, 4096, 130, 77, 1500, 20, 600]
WINDOW, LONGFORMER = "causal & window(256)", "longformer(256,64)"
GROUPED = {"heads": 32, "kv_heads": 8, "dim": 128}
FULL = ("plain", "host", "device", "padded device")


def cases():
    for mask in ("causal", WINDOW, LONGFORMER):
        for batch in (4, 16):
            yield Case("full", mask, 4096, [4096] * batch, ways=FULL)
            yield Case("full", mask, 2048, [2048] * batch, **GROUPED, ways=FULL)
        yield Case("mixed", mask, 4096, MIXED, ways=("host", "device", "padded host"))
        yield Case("mixed", mask, 4096, MIXED, **GROUPED)
        yield Case("short", mask, 4096, drawn(64, 20, 256))
        yield Case("short", mask, 4096, drawn(64, 20, 256), **GROUPED)
        yield Case("medium", mask, 2048, drawn(64, 100, 1100))
        yield Case("nearly full", mask, 1024, drawn(32, 900, 1024))
        yield Case("half", mask, 1024, drawn(32, 400, 640))
        yield Case("few", mask, 1024, drawn(8, 64, 512))
    yield Case("narrow", "window(32)", 4096, MIXED)
    yield Case("narrow", "causal & window(64)", 4096, MIXED, **GROUPED)
    yield Case("narrow", "window(32)", 1024, drawn(32, 400, 640))
    yield Case("narrow", "window(64)", 512, drawn(64, 20, 512))
    yield Case("narrow", "causal & window(127)", 1024, drawn(32, 900, 1024))
    yield Case("narrow", "all", 128, drawn(64, 20, 128))
    yield Case("mixed", "all", 4096, MIXED)
    yield Case("short", "all", 4096, [128] * 64)


class Batch:
    """A case's tensors: one item after the other, or each with room for the longest."""

    def __init__(self, case):
        self.case, self.rows = case, sum(case.lengths)
        room = max(self.rows, len(case.lengths) * case.planned if "padded host" in case.ways else 0)
        make = lambda heads: torch.randn(room, heads, case.dim, device="cuda", dtype=torch.float16)
        self.q, self.k, self.v = make(case.heads), make(case.kv_heads), make(case.kv_heads)
        self.out = torch.empty_like(self.q)
        starts = [sum(case.lengths[:i]) for i in range(len(case.lengths) + 1)]
        numbers = lambda values: (c.c_int32 * len(values))(*values)
        self.starts, self.lengths = numbers(starts), numbers(case.lengths)
        there = lambda values: torch.tensor(values, dtype=torch.int32, device="cuda")
        self.starts_there, self.lengths_there = there(starts), there(case.lengths)

    def call(self, way):
        packed = way in ("host", "device")
        rows = self.rows if packed else self.case.planned
        tensor = lambda t: c_library.Tensor(t.data_ptr(), 0 if packed else rows * t.stride(0), t.stride(1), t.stride(0))
        call = c_library.Call(c.sizeof(c_library.Call), c_library.F16, len(self.case.lengths), rows, rows,
                              tensor(self.q), tensor(self.k), tensor(self.v), tensor(self.out))  # fmt: skip
        if way == "host":
            call.cu_q = call.cu_kv = c.addressof(self.starts)
        elif way == "device":
            call.device_cu_q = call.device_cu_kv = self.starts_there.data_ptr()
        elif way == "padded host":
            call.q_lengths = call.kv_lengths = c.addressof(self.lengths)
        elif way == "padded device":
            call.device_q_lengths = call.device_kv_lengths = self.lengths_there.data_ptr()
        return call

    def items(self, values, way):
        """[rows, heads, d] of each item, whichever way they lie."""
        begins = [i * self.case.planned if way == "padded host" else self.starts[i] for i in range(len(self.case.lengths))]
        return [values[begin : begin + n] for begin, n in zip(begins, self.case.lengths)]

    def expected(self, way):
        """Of each item which rows are looked at, and their outputs in fp32 [1, heads, rows, d]."""
        found, generator = [], torch.Generator().manual_seed(5)
        for q, k, v in zip(*(self.items(values, way) for values in (self.q, self.k, self.v))):
            n = len(q)
            ends = [torch.arange(min(n, SEEN)), torch.arange(max(0, n - SEEN), n), torch.randint(0, n, (SEEN,), generator=generator)]
            rows = torch.unique(torch.cat(ends)).to(q.device)
            dense = masks.named(self.case.mask, n).dense(n, device=q.device)
            found.append((rows, timing.reference(*(t.transpose(0, 1)[None] for t in (q, k, v)), dense, rows)))
        return found

    def check(self, way, expected):
        """The largest relative error of an item and of a row; a WrongOutput names the item that is past the bounds."""
        worst = (0.0, 0.0)
        for i, (out, (rows, want)) in enumerate(zip(self.items(self.out, way), expected, strict=True)):
            try:
                worst = tuple(map(max, worst, timing.check(out.transpose(0, 1)[None], want, rows, torch.float16)))
            except timing.WrongOutput as wrong:
                raise timing.WrongOutput(f"item {i} of {len(out)} rows: {wrong}") from None
        return worst

class Timed:
    """A graph of many runs of a plan."""

    def __init__(self, library, plan, call, stream):
        self.stream = stream
        call.stream = stream.cuda_stream
        run = lambda: library.run(plan, call)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(stream):
            for i in range(4):
                if i == 1:
                    begin.record()
                run()
            end.record()
        stream.synchronize()
        self.runs = max(2, min(40, int(3 * TURN_US / (1000 * begin.elapsed_time(end)))))
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            for _ in range(self.runs):
                run()
        self.call, self.times = call, []

    def turn(self):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(self.stream):
            self.graph.replay()
            begin.record()
            self.graph.replay()
            end.record()
        self.stream.synchronize()
        self.times.append(1000 * begin.elapsed_time(end) / self.runs)


def planned(library, case):
    mask = library.parse(case.mask)
    shape = (len(case.lengths), case.heads, case.kv_heads, case.planned, case.planned, case.dim, c_library.F16, False)
    plan = library.plan(mask, shape, "cuda")
    library.library.stof_mask_destroy(mask)
    return plan


def measure(libraries, case, rounds):
    """Microseconds of each library and way, which take turns; the order of turns turns around each round."""
    batch, stream, expected, timed, errors = Batch(case), torch.cuda.Stream(), {}, {}, {}
    plans = {name: planned(library, case) for name, library in libraries.items()}
    said = [json.loads(libraries[name].library.stof_plan_description(plan)) for name, plan in plans.items()]
    instances = {plan.get("instance", plan["kernel"]) for plan in said}
    for way in case.ways:
        for name, library in libraries.items():
            batch.out.fill_(float("nan"))
            timed[way, name] = Timed(library, plans[name], batch.call(way), stream)
            lies = "padded" if way == "padded host" else "packed"
            if lies not in expected:
                expected[lies] = batch.expected(way)
            try:
                errors.setdefault(way, {})[name] = batch.check(way, expected[lies])
            except timing.WrongOutput as wrong:
                raise timing.WrongOutput(f"{case.name} {case.mask} {way} {name}: {wrong}") from None
    turns = list(timed.values())
    for i in range(rounds):
        for one in turns if i % 2 == 0 else reversed(turns):
            one.turn()
    for name, plan in plans.items():
        libraries[name].library.stof_plan_destroy(plan)
    us = {way: {name: round(statistics.median(timed[way, name].times), 2) for name in libraries} for way in case.ways}
    # In each round the two took their turns within milliseconds of each other.
    ratio = {way: round(statistics.median(a / b for a, b in zip(*(timed[way, name].times for name in libraries))), 4)
             for way in case.ways} if len(libraries) > 1 else {}  # fmt: skip
    return {"case": case.name, "mask": case.mask, "heads": case.heads, "kv_heads": case.kv_heads, "head_dim": case.dim,
            "planned": case.planned, "items": len(case.lengths), "rows": batch.rows, "instance": sorted(instances),
            "us": us, "before_over_after": ratio, "errors": errors}  # fmt: skip


def options(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--beside", metavar="OTHER.SO")
    parser.add_argument("--commits", nargs=2, metavar=("OF_IT", "OF_OTHER"), help="what bench/ragged_table.py calls the two")
    parser.add_argument("--case", action="append", choices=sorted({case.name for case in cases()}), help="these alone")
    parser.add_argument("--rounds", type=int, default=11, help="turns of each")
    parser.add_argument("--out")
    given = parser.parse_args(words)
    if given.rounds < 1:
        parser.error(f"--rounds {given.rounds}; accepted: 1 or more")
    if (given.beside is None) != (given.commits is None):
        parser.error("--beside and --commits go together: a table of two libraries says which they are")
    return given


def main():
    given = options()
    libraries = {"after": c_library.Stof(given.library)}
    if given.beside:
        libraries = {"before": c_library.Stof(given.beside)} | libraries
    rows = []
    for case in cases():
        if given.case and case.name not in given.case:
            continue
        rows.append(measure(libraries, case, given.rounds))
        row = rows[-1]
        print(f"{row['case']:11} {row['mask']:20} H{row['heads']:<3}d{row['head_dim']:<4}{row['items']:3} x {row['planned']:5} "
              + "  ".join(f"{way} {' '.join(str(t) for t in us.values())} ({row['before_over_after'].get(way, 1):.3f})"
                          for way, us in row["us"].items()), flush=True)  # fmt: skip
        if given.out:
            about = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda,
                     "commits": given.commits or [], "turn_us": TURN_US, "rounds": given.rounds}  # fmt: skip
            Path(given.out).write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
