#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decode attention on a GPU, and chunks of prompts: STOF through its C API, SDPA, FlexAttention, FlashAttention 4, cuDNN and
FlashInfer, in one process for each row, on the same keys, in turns: device time by CUDA-graph replay and its share of the
floor, of the memory or, of chunks, of the tensor cores. Each output is checked against fp32 before it is timed; a peer that
fails or takes no such problem is recorded with its reason. Chunks over pages are also timed with the same keys in rows.

    python bench/peers/decode.py --library build/release/libstof.so --out FILE.json [--commit ID] [--only TEXT] [--part 1/4]
    python bench/peers/decode.py --library build/release/libstof.so --out FILE.json --drawn SEED [--rows 36]
    python bench/peers/decode.py --library build/release/libstof.so --out FILE.json --chunks SEED [--rows 36]
    python bench/peers/decode.py --library build/release/libstof.so --out FILE.json --chunks-fixed
"""
from __future__ import annotations

import argparse
import sys
import time

import decode_flashinfer
import decode_providers
import torch
from attention import environment
from attention_row import failure, poisoned_output
from chunk_problems import drawn_chunks, fixed_chunks
from cpu_run import Results
from decode_case import BOUNDS, Case, StofPlan, fixed_problems
from drawn_decode import drawn_problems
from providers import Contender, NotTaken
from replays import LAUNCHES, Replay, in_turns
from shares import part_of
from stof_library import load
from timing import WrongOutput, errors, judged

ROUNDS = 11
REPLAY_US = 40000  # of a graph, at the floor: a few launches where each takes milliseconds
CHUNK_REPLAY_US = 10000  # of chunks, whose floor contenders are further from


def check(out, expected, dtype) -> dict:
    """Relative errors over the items that are looked at, of all together and of the worst row; a WrongOutput where one is past
    its bound, or where any item holds NaN."""
    if not torch.isfinite(out).all():
        raise WrongOutput("output holds NaN or infinity")
    got, want = (torch.stack(list(of)) for of in ((out[item].float() for item in expected), expected.values()))
    frobenius, worst = judged(*errors(got, want), BOUNDS[dtype])
    return {"error": frobenius, "worst_row": worst}


def prepared(providers, case, peers, check=check):
    """Contenders by name, checked; `peers` gets their errors, or why there is none."""
    expected, contenders = case.expected(), {}
    for name, provider in providers.items():
        try:
            contender = provider(case)
            out = poisoned_output(contender, case.shape, case.q.dtype)
            peers[name] = {**check(out, expected, case.problem.dtype), **(contender.facts or {})}
            contenders[name] = contender
        except (NotTaken, ImportError) as reason:
            peers[name] = {"refused": str(reason)}
        except Exception as error:  # a peer's failure must not end the comparison
            peers[name] = {"failed": failure(error)}
    return contenders


def ours(library, problem, plans):
    """STOF as providers by name; their plans are put into `plans`."""

    def planned(case):
        plan = StofPlan(library, case)
        plans.append(plan)
        return Contender(plan.launch, facts={key: plan.description[key] for key in ("kernel", "instance", "predicted_us")})

    beside = {"stof_rows": lambda case: planned(case.in_rows())} if problem.is_chunk and problem.page else {}
    return {"stof": planned, **beside}


def time_in_turns(contenders, count, peers):
    """Graphs of so many launches; `peers` gets the medians, or why there is none."""
    replays = {}
    for name, contender in contenders.items():
        try:
            replays[name] = Replay(contender.launch, [0] * count, keep=1)
        except Exception as error:
            peers[name] = {"failed": failure(error)}
    for name, us in in_turns(replays, ROUNDS).items():
        peers[name] |= {"median_us": us, "replays": ROUNDS, "launches": count}


def measure(library, place, problem, without=()):
    case = Case(problem)
    moved, floors, plans, peers = case.bytes(), case.floors(), [], {}
    limit, floor = max(floors.items(), key=lambda one: one[1])
    every = {**decode_providers.providers_of(problem.queries), **decode_flashinfer.PROVIDERS}
    asked = {name: provider for name, provider in every.items() if not name.startswith(tuple(without))}
    contenders = prepared({**ours(library, problem, plans), **asked}, case, peers)
    count = max(2, min(LAUNCHES, int((CHUNK_REPLAY_US if problem.is_chunk else REPLAY_US) / floor)))
    time_in_turns(contenders, count, peers)
    for plan in plans:
        plan.close()
    hot = moved <= torch.cuda.get_device_properties(0).L2_cache_size  # which keeps them from one launch to the next
    return {"id": problem.name, "place": place, **problem.facts(), "bytes": moved, "in_l2": hot, "floor_us": floor,
            "floor_of": limit, "peers": peers}  # fmt: skip


def show(row):
    times = sorted((peer["median_us"], name) for name, peer in row["peers"].items() if "median_us" in peer)
    print(f"{row['id'][:80]:80} floor {row['floor_us']:.1f}  " + "  ".join(f"{name} {us:.1f}" for us, name in times), flush=True)
    for name, peer in row["peers"].items():
        if "failed" in peer:
            print(f"    {name}: {peer['failed'][:150]}", flush=True)


def ended(results, begin) -> bool:
    """Writes them and says what is there. Whether STOF has no time in some row."""
    results.write()
    wrong = [row["id"] for row in results.data["rows"] if "median_us" not in row["peers"]["stof"]]
    print(f"{len(results.data['rows'])} rows, {time.monotonic() - begin:.0f} s, without a time of STOF: {wrong}", flush=True)
    return bool(wrong)


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--commit", default="unknown", help="that the library was built from")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--drawn", type=int, metavar="SEED", help="shapes and masks drawn by this number in place of the fixed")
    kinds.add_argument("--chunks", type=int, metavar="SEED", help="chunks of prompts in place of decoding, drawn by this number")
    kinds.add_argument("--chunks-fixed", dest="chunks", action="store_const", const="fixed", help="chunks of prompts, chosen ones")
    parser.add_argument("--rows", type=int, default=36, help="of those that are drawn")
    parser.add_argument("--only", default="", help="rows whose name contains this text")
    parser.add_argument("--part", type=part_of, default=(0, 1), metavar="I/N", help="of the rows, for one of N GPUs")
    parser.add_argument("--without", nargs="+", default=[], metavar="NAME", help="peers whose names begin so are not asked")
    parser.add_argument("--seconds", type=float, default=240, help="until when rows are begun")
    return parser.parse_args()


def problems_of(arguments):
    """What the results say of them, and the problems."""
    if arguments.chunks == "fixed":
        return {"chunks": "fixed"}, fixed_chunks()
    if arguments.chunks is not None:
        return {"chunks": arguments.chunks}, drawn_chunks(arguments.chunks, arguments.rows)
    if arguments.drawn is not None:
        return {"drawn": arguments.drawn}, drawn_problems(arguments.drawn, arguments.rows)
    return {}, fixed_problems()


@torch.no_grad()
def main():
    arguments, begin = options(), time.monotonic()
    kind, problems = problems_of(arguments)
    head = {"command": "peers decode cuda", "commit": arguments.commit, **environment(), **kind}
    results, library = Results(arguments.out, head, False), load(arguments.library)
    number, parts = arguments.part
    chosen = [(place, problem) for place, problem in enumerate(problems) if arguments.only in problem.name]
    sizes = sorted({(problem.batch, problem.keys) for _, problem in chosen})  # a shape's kernels are compiled once
    if not kind:
        chosen.sort(key=lambda one: one[1].page)  # rows first, which more peers take
    for place, problem in chosen:
        if sizes.index((problem.batch, problem.keys)) % parts != number or time.monotonic() - begin > arguments.seconds:
            continue
        row = measure(library, place, problem, arguments.without)
        torch.cuda.empty_cache()
        results.add(row)
        show(row)
    return ended(results, begin)


if __name__ == "__main__":
    sys.exit(main())
