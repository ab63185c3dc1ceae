#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Steps of a server whose inputs the launch in front writes anew each time: no launch may read them early, and what is behind
reads whole outputs. Launches of STOF begin beside others' ends, and two of them may work side by side.

    python bench/peers/fresh_inputs.py --library build/release/libstof.so

Every output of a chain, as it is launched and as a graph, must have the bits that the same inputs have by themselves.
"""
from __future__ import annotations

import argparse
import math
import sys

import torch
from step_case import StepCase, StofStep
from step_problems import StepProblem, drawn_steps, fixed_steps
from stof_library import load

INPUTS, ROUNDS = 4, 5


class Chain:
    """Writes q and a page of k, runs the step, keeps its output: INPUTS times."""

    def __init__(self, library, problem: StepProblem, device: str):
        self.case = StepCase(problem, device)
        self.step = StofStep(library, self.case, torch.full_like(self.case.q, math.nan))
        self.page = int(self.case.table[0, 0])
        self.inputs = [(torch.randn_like(self.case.q), torch.randn_like(self.case.k[0])) for _ in range(INPUTS)]
        self.outputs = [torch.zeros_like(self.step.out) for _ in self.inputs]

    def one(self, number: int):
        q, page = self.inputs[number]
        self.case.q.copy_(q)
        self.case.k[self.page].copy_(page)
        self.step.out.fill_(math.nan)
        self.step.launch()
        self.outputs[number].copy_(self.step.out)

    def run(self):
        for number in range(INPUTS):
            self.one(number)

    def by_themselves(self) -> list:
        for number in range(INPUTS):
            self.one(number)
            if self.case.device != "cpu":
                torch.cuda.synchronize()
        return [output.clone() for output in self.outputs]

    def differing(self, run, wanted) -> int:
        """Outputs of several rounds that are not as wanted."""
        count = 0
        for _ in range(ROUNDS):
            for output in self.outputs:
                output.zero_()
            run()
            if self.case.device != "cpu":
                torch.cuda.synchronize()
            count += sum(not torch.equal(got, want) for got, want in zip(self.outputs, wanted, strict=True))
        return count


def differing(library, problem: StepProblem, device: str = "cuda") -> int:
    """Of 2 * ROUNDS * INPUTS outputs, on the CPU of half as many."""
    chain = Chain(library, problem, device)
    wanted = chain.by_themselves()
    if any(not torch.isfinite(output).all() for output in wanted):
        raise ValueError(f"{problem.name}: an output holds NaN or infinity")
    try:
        if device == "cpu":
            return chain.differing(chain.run, wanted)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            count = chain.differing(chain.run, wanted)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                chain.run()
            return count + chain.differing(graph.replay, wanted)
    finally:
        chain.step.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True)
    parser.add_argument("--drawn", type=int, default=1, metavar="SEED", help="of drawn steps, beside the chosen ones")
    parser.add_argument("--rows", type=int, default=24, help="of those that are drawn")
    arguments = parser.parse_args()
    library, wrong = load(arguments.library), 0
    for problem in [*fixed_steps(), *drawn_steps(arguments.drawn, arguments.rows)]:
        count = differing(library, problem)
        wrong += count > 0
        print(f"{problem.name[:100]:100} {count or 'none'} differ", flush=True)
    print(f"{wrong} steps differ")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
