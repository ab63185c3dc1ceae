#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Verifying draft trees of speculative decoding on a GPU: items that each have a tree of drafts of their own, over their own number
of keys, in pages or in rows. STOF through its C API, SDPA, FlexAttention, FlashAttention 4 and FlashInfer, in one process for each
row, on the same tensors, in turns: device time by CUDA-graph replay. Each output is checked against fp32, item by item, before it is
timed; a peer that fails or takes no such batch is recorded with its reason. Where one leaves the GPU unusable, a process without it
goes on. Of peers that have no pages the keys are copied into rows before, which results say.

    python bench/peers/trees.py --library build/release/libstof.so --out FILE.json [--commit ID] [--only TEXT] [--part 1/4]
    python bench/peers/trees.py --library build/release/libstof.so --out FILE.json --drawn SEED [--rows 36]

stof: one call, lengths on the host, trees on the device. stof_causal: a causal chunk of as many queries over the same keys, which
says what trees cost. fa4_parts, flashinfer_parts: keys in front of the drafts and those of the drafts apart (tree_parts.py). Rows
that there was no time for are listed as "not_run"; --resume goes on with FILE.json.
"""
from __future__ import annotations

import functools
import math
import sys
import time

import torch
import tree_providers
from attention import environment
from cpu_run import Results
from decode import ended, show
from providers import Contender
from steps import SAID, Broken, contenders_of, gone_on, measured, parser_of
from stof_library import load
from tree_case import StofTrees, TreeCase
from tree_problems import drawn_trees, fixed_trees


def stof(with_trees, library, plans, case):
    call = StofTrees(library, case, torch.full_like(case.q, math.nan), with_trees)
    plans.append(call)

    def launch(i):
        call.launch()
        return call.out

    return Contender(launch, facts={key: call.description.get(key) for key in SAID})


def contenders_for(library, plans, case, peers, without, broke):
    """All of them, checked; the causal chunk against what it is."""
    ours = {"stof": functools.partial(stof, True, library, plans)}
    beside = {"stof_causal": functools.partial(stof, False, library, plans)}
    asked = {name: provider for name, provider in tree_providers.PROVIDERS.items() if not name.startswith(tuple(without))}
    return {**contenders_of(ours, case, peers, broke), **contenders_of(beside, case.causal(), peers, broke),
            **contenders_of(asked, case, peers, broke)}  # fmt: skip


def measure(library, place, problem, without, broke):
    case = TreeCase(problem)
    return measured(place, problem, lambda plans, peers: contenders_for(library, plans, case, peers, without, broke))


def options(words=None):
    parser = parser_of(__doc__)
    parser.add_argument("--resume", action="store_true", help="rows that FILE.json has are not measured again")
    return parser.parse_args(words)


def wanted(arguments, problems, results):
    """Places and problems that are to be measured."""
    number, parts = arguments.part
    return [(place, problem) for place, problem in enumerate(problems)
            if arguments.only in problem.name and place % parts == number and not results.has(problem.name)]  # fmt: skip


@torch.no_grad()
def main():
    arguments, begin = options(), time.monotonic()
    fixed = arguments.drawn is None
    problems = fixed_trees() if fixed else drawn_trees(arguments.drawn, arguments.rows)
    head = {"command": "peers trees cuda", "commit": arguments.commit, **environment(), "trees": "fixed" if fixed else arguments.drawn}
    results = Results(arguments.out, head, arguments.resume or bool(arguments.broke), ("command", "commit", "device", "trees"))
    library, broke = load(arguments.library), dict(text.split("=", 1) for text in arguments.broke)
    left = wanted(arguments, problems, results)
    while left:
        results.data["not_run"] = [problem.name for _, problem in left]
        spent = time.monotonic() - begin
        if spent > arguments.seconds:
            break
        try:
            row = measure(library, *left.pop(0), arguments.without, broke)
        except Broken as broken:
            return gone_on(sys.argv, broken, arguments.seconds - spent)
        torch.cuda.empty_cache()
        results.data["not_run"].pop(0)
        results.add(row)
        show(row)
    print(f"no time for {results.data.get('not_run', [])}", flush=True)
    return int(ended(results, begin))


if __name__ == "__main__":
    sys.exit(main())
