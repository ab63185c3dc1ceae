#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds of STOF beside each other on a GPU: each plans the same problems, its output is checked against fp32, and then they
are timed in turns in one process, by CUDA-graph replay, in the order given and in the other. Of two builds that differ by one
change the quotient says what it does; between processes, days and GPUs times differ by more than most changes.

    python bench/peers/builds.py --builds before=old/libstof.so after=build/release/libstof.so --problems FILE --out FILE.json
    python bench/peers/builds.py --builds lists=build/release/libstof.so:stream_attention bands=build/release/libstof.so:band_attention ...

A build may name a kernel; where that cannot serve a problem the row says why. Problems are lines of given_problems.py, as in
    8x512x512 heads=12 d=128 bigbird(64,3,2,3,1)
    1x64x8192 page=64 heads=32:8 d=128 causal
"""
from __future__ import annotations

import argparse
import hashlib
import sys
import time

import torch
from attention import environment
from attention_row import failure, poisoned_output
from cpu_run import Results
from decode import CHUNK_REPLAY_US, ROUNDS, check
from decode_case import Case, Problem, StofPlan
from given_problems import build_of, problems_in
from providers import Contender
from replays import LAUNCHES, Replay, in_turns
from shares import part_of
from stof_library import load


class Line:
    """The builds' plans of one problem, those that are right."""

    def __init__(self, builds, problem: Problem):
        self.case, self.found, self.plans = Case(problem), {}, {}
        expected = self.case.expected()
        for name, (library, kernel) in builds.items():
            try:
                plan = self.plans[name] = StofPlan(library, self.case, kernel)
                found = check(poisoned_output(Contender(plan.launch), self.case.shape, self.case.q.dtype), expected, problem.dtype)
                self.found[name] = {**found, **{key: plan.description[key] for key in ("kernel", "instance", "predicted_us")}}
            except Exception as reason:  # of one build, which the others are beside
                self.found[name] = {"failed": failure(reason)}

    def time(self):
        """Puts the means of both orders' medians beside what is known."""
        floor = max(self.case.floors().values())
        count = max(2, min(LAUNCHES, int(CHUNK_REPLAY_US / floor)))
        replays = {name: Replay(self.plans[name].launch, [0] * count, keep=1) for name, facts in self.found.items() if "error" in facts}
        orders = [in_turns(dict(order), ROUNDS) for order in (list(replays.items()), list(replays.items())[::-1])]
        for name in replays:
            self.found[name] |= {"median_us": sum(order[name] for order in orders) / 2, "replays": 2 * ROUNDS, "launches": count}

    def close(self):
        for plan in self.plans.values():
            plan.close()
        torch.cuda.empty_cache()


def show(row):
    times = "  ".join(f"{name} {facts['median_us']:.2f}" if "median_us" in facts else f"{name}: {facts['failed'][:80]}"
                      for name, facts in row["builds"].items())  # fmt: skip
    print(f"{row['id'][:84]:84} floor {row['floor_us']:.1f}  {times}", flush=True)


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--builds", nargs="+", type=build_of, required=True, metavar="NAME=LIBRARY[:KERNEL]")
    parser.add_argument("--problems", required=True, help="a file, a line for each")
    parser.add_argument("--out", required=True)
    parser.add_argument("--commits", nargs="*", default=[], metavar="NAME=ID", help="that builds were made from")
    parser.add_argument("--part", type=part_of, default=(0, 1), metavar="I/N", help="of the problems, for one of N GPUs")
    parser.add_argument("--seconds", type=float, default=240, help="until when problems are begun")
    arguments = parser.parse_args()
    names = [name for name, _, _ in arguments.builds]
    if len(set(names)) < len(names):
        parser.error(f"--builds {' '.join(names)}; accepted: a name of its own for each")
    return arguments


@torch.no_grad()
def main():
    arguments, begin = options(), time.monotonic()
    with open(arguments.problems) as file:
        problems = problems_in(file.read())
    libraries = {path: load(path) for _, path, _ in arguments.builds}
    builds = {name: (libraries[path], kernel) for name, path, kernel in arguments.builds}
    listed = hashlib.sha256("\n".join(text for text, _ in problems).encode()).hexdigest()[:12]  # a place is one of this list
    head = {"command": "peers builds cuda", "commit": " ".join(arguments.commits) or "unknown", **environment(),
            "cases": {"problems": listed}}  # fmt: skip
    results, (number, parts) = Results(arguments.out, head, False), arguments.part
    for place, (text, problem) in list(enumerate(problems))[number::parts]:
        if time.monotonic() - begin > arguments.seconds:
            break
        line = Line(builds, problem)
        line.time()
        line.close()
        row = {"id": text, "place": place, **problem.facts(), "floor_us": max(line.case.floors().values()), "builds": line.found}
        results.add(row)
        show(row)
    results.write()
    failed = [row["id"] for row in results.data["rows"] if any("failed" in facts for facts in row["builds"].values())]
    print(f"{len(results.data['rows'])} of {len(problems)} problems, {time.monotonic() - begin:.0f} s, failed: {failed}", flush=True)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
