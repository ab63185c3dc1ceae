#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Steps of a server on a GPU: one call over pages in which many items decode beside chunks of prompts, each item with its own
number of keys. STOF through its C API, FlashAttention 4, FlashInfer and cuDNN, in one process for each row, on the same tensors, in
turns: device time by CUDA-graph replay. Each output is checked against fp32, item by item, before it is timed; a peer that fails
or takes no such batch is recorded with its reason. Where one leaves the GPU unusable, a process without it goes on.

    python bench/peers/steps.py --library build/release/libstof.so --out FILE.json [--commit ID] [--only TEXT] [--part 1/4]
    python bench/peers/steps.py --library build/release/libstof.so --out FILE.json --drawn SEED [--rows 36]

stof: one call, lists of lengths on the host. stof_two: items that decode by a plan of their own, then chunks by another.
stof_device: one call, lists on the device. fa4_two: as stof_two.
"""
from __future__ import annotations

import argparse
import functools
import math
import subprocess
import sys
import time

import step_providers
import torch
from attention import environment
from cpu_run import Results
from decode import CHUNK_REPLAY_US, ended, prepared, show, time_in_turns
from providers import Contender, NotTaken
from replays import LAUNCHES
from shares import part_of
from step_case import StepCase, StofStep
from step_problems import drawn_steps, fixed_steps
from stof_library import c_library, load

SAID = ("kernel", "instance", "predicted_us")  # of a plan, in the results


class Broken(Exception):
    """The peer `name` left the GPU unusable to this process."""

    def __init__(self, name, text):
        super().__init__(text)
        self.name, self.text = name, text


def stof(library, plans, case, listed="host"):
    """listed: where the lists of lengths are."""
    step = StofStep(library, case, torch.full_like(case.q, math.nan), listed)
    plans.append(step)
    try:
        step.launch()
    except (c_library.Unsupported, c_library.InvalidArgument) as refusal:
        if listed == "host":
            raise
        raise NotTaken(str(refusal)) from None
    return contender_of([step], step.out)


def stof_two(library, plans, case):
    if not case.problem.decoding:
        raise NotTaken("chunks alone are one call")
    out = torch.full_like(case.q, math.nan)
    steps = [StofStep(library, part, out[rows]) for part, rows in case.parts()]
    plans.extend(steps)
    return contender_of(steps, out)


def contender_of(steps, out):
    """They run one behind the other."""

    def launch(i):
        for step in steps:
            step.launch()
        return out

    said = [{key: step.description.get(key) for key in SAID} for step in steps]
    return Contender(launch, facts=said[0] if len(said) == 1 else {"calls": said})


def ours(library, plans) -> dict:
    """STOF as providers by name; their plans are put into `plans`."""
    return {"stof": functools.partial(stof, library, plans), "stof_two": functools.partial(stof_two, library, plans),
            "stof_device": functools.partial(stof, library, plans, listed="device")}  # fmt: skip


def unusable() -> bool:
    """An error of a kernel stays with the process."""
    try:
        torch.cuda.synchronize()
        return False
    except Exception:
        return True


def contenders_of(providers, case, peers, broke):
    """Checked. broke: what peers said that left the GPU unusable before; they are not asked."""
    found = {}
    for name, provider in providers.items():
        if name in broke:
            peers[name] = {"failed": broke[name]}
            continue
        found |= prepared({name: provider}, case, peers, case.check)
        if "failed" in peers[name] and unusable():
            raise Broken(name, peers[name]["failed"])
    return found


def measured(place, problem, checked):
    """The row of a problem. checked(plans, peers): contenders, whose plans it adds, and to peers what became of each."""
    plans, peers = [], {}
    floors = problem.floors(torch.cuda.get_device_name())
    limit, floor = max(floors.items(), key=lambda one: one[1])
    contenders = checked(plans, peers)
    time_in_turns(contenders, max(2, min(LAUNCHES, int(CHUNK_REPLAY_US / floor))), peers)
    for plan in plans:
        plan.close()
    hot = problem.bytes() <= torch.cuda.get_device_properties(0).L2_cache_size  # which keeps them from launch to launch
    return {"id": problem.name, "place": place, **problem.facts(), "in_l2": hot, "floors_us": floors, "floor_us": floor,
            "floor_of": limit, "peers": peers}  # fmt: skip


def measure(library, place, problem, without, broke):
    case = StepCase(problem)
    asked = {name: provider for name, provider in step_providers.PROVIDERS.items() if not name.startswith(tuple(without))}
    return measured(place, problem, lambda plans, peers: contenders_of({**ours(library, plans), **asked}, case, peers, broke))


def parser_of(description):
    """Of programs that measure rows of their own beside peers, one after the other."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--commit", default="unknown", help="that the library was built from")
    parser.add_argument("--drawn", type=int, metavar="SEED", help="rows drawn by this number in place of the fixed")
    parser.add_argument("--rows", type=int, default=36, help="of those that are drawn")
    parser.add_argument("--only", default="", help="rows whose name contains this text")
    parser.add_argument("--part", type=part_of, default=(0, 1), metavar="I/N", help="of the rows, for one of N GPUs")
    parser.add_argument("--without", nargs="+", default=[], metavar="NAME", help="peers whose names begin so are not asked")
    parser.add_argument("--seconds", type=float, default=480, help="until when rows are begun")
    parser.add_argument("--broke", action="append", default=[], metavar="NAME=TEXT",
                        help="a peer that is not asked, since it left the GPU unusable, and what it said; goes on with FILE.json")  # fmt: skip
    return parser


def options(words=None):
    return parser_of(__doc__).parse_args(words)


def gone_on(words, broken, seconds) -> int:
    """What the process that goes on without the peer returns; of an option that is named twice the last counts."""
    print(f"    {broken.name} left the GPU unusable; another process goes on: {broken.text[:150]}", flush=True)
    return subprocess.call([sys.executable, *words, "--broke", f"{broken.name}={broken.text}", "--seconds", f"{seconds:.0f}"])


@torch.no_grad()
def main():
    arguments, begin = options(), time.monotonic()
    fixed = arguments.drawn is None
    problems = fixed_steps() if fixed else drawn_steps(arguments.drawn, arguments.rows)
    head = {"command": "peers steps cuda", "commit": arguments.commit, **environment(), "steps": "fixed" if fixed else arguments.drawn}
    results = Results(arguments.out, head, bool(arguments.broke), ("command", "commit", "steps"))
    library, broke = load(arguments.library), dict(text.split("=", 1) for text in arguments.broke)
    number, parts = arguments.part
    for place, problem in enumerate(problems):
        spent = time.monotonic() - begin
        if arguments.only not in problem.name or place % parts != number or results.has(problem.name) or spent > arguments.seconds:
            continue
        try:
            row = measure(library, place, problem, arguments.without, broke)
        except Broken as broken:
            return gone_on(sys.argv, broken, arguments.seconds - spent)
        torch.cuda.empty_cache()
        results.add(row)
        show(row)
    return int(ended(results, begin))


if __name__ == "__main__":
    sys.exit(main())
