#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a decoder takes to go on behind texts: STOF beside transformers (greedy, sdpa, keys and values kept; on a GPU also with a
static cache and torch.compile in reduce-overhead), on the same texts, in turns. Each call's tokens are compared before its time
counts: in f32 they are the same, and where 16 bits lead to another text, every token is as likely as rounding leaves it.

    python bench/peers/generate.py --out results.json [--device cuda --commit ID] [--model-folder DIR] [--resume]

Times are until the first token of each text is there, and for each token behind it. STOF is a process for each call, whose loading is
not counted: it goes over the texts four times, and the last time is compared; the first one, in which its plans are made, is kept beside it.
transformers has made calls of the same sizes before, too.
"""
from __future__ import annotations

import argparse
import os
import time
from importlib.metadata import version
from pathlib import Path

# As STOF's program has it. Where others use the cores, threads that spin longer slow transformers down: a token behind (8,64) in f32
# took it 2,117 ms in bench/results/65d1c4b-cpu-generate.json, which has no such line, and 668 ms in 24bf3b0-cpu-generate.json.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

from continuations import Stof, Transformers, checked, summed_up  # noqa: E402  (OpenMP reads the environment)
from cpu_run import FAR_BEHIND, REST_S, ROOT, SAME, Results, environment  # noqa: E402
from decoders import SIZES, prompts_of, random_decoder  # noqa: E402

CASES = [(texts, prompt, dtype) for prompt in (64, 512) for texts in (1, 8) for dtype in ("f32", "bf16")]
EAGER, COMPILED = "transformers", "transformers static, compiled"
WARM_UP = {EAGER: 1, COMPILED: 2}  # calls: the second one records


def name_of(case):
    texts, prompt, dtype = case
    return f"({texts},{prompt}) {dtype}"


class Line:
    """One case: its contenders, asked in turns."""

    def __init__(self, case, contenders, gap):
        self.case, self.dtype, self.gap = case, case[2], gap
        self.contenders, self.runs, self.facts = contenders, {name: [] for name in contenders}, {}
        self.expected = None

    def guarded(self, name, work):
        try:
            return work()
        except Exception as error:  # of one contender, which the others are beside
            self.facts[name] = {"failed": f"{type(error).__name__}: {str(error)[:200]}"}
            return None

    def warm_up(self):
        """Whose ids the others are compared with is asked first."""
        for name, count in WARM_UP.items():
            for _ in range(count):
                if name in self.contenders and "failed" not in self.facts.get(name, {}):
                    done = self.guarded(name, self.contenders[name])
                    if name == EAGER and done:
                        self.expected = done.ids
        if self.expected is None:
            raise SystemExit(f"{name_of(self.case)}: {self.facts[EAGER]['failed']}")

    def check(self, name, done):
        """Keeps the worst of a contender's calls."""
        found = checked(done.ids, self.expected, self.dtype, self.gap)
        known = self.facts.setdefault(name, found)
        known["same_tokens"] = [min(pair) for pair in zip(known["same_tokens"], found["same_tokens"])]
        if "gap" in found:
            known["gap"] = max(known.get("gap", 0.0), found["gap"])
        self.runs[name].append(done)

    def round(self, number):
        """Every second one backwards: nobody has always the same one in front of it. One that is FAR_BEHIND has one round."""
        best = {name: min(run.seconds for run in runs) for name, runs in self.runs.items() if runs}
        behind = {name for name, seconds in best.items() if seconds > FAR_BEHIND * min(best.values())}
        names = [name for name in self.contenders if "failed" not in self.facts.get(name, {}) and name not in behind]
        for name in names if number % 2 == 0 else reversed(names):
            time.sleep(REST_S)
            self.guarded(name, lambda: self.check(name, self.contenders[name]()))

    def measure(self, rounds):
        self.warm_up()
        for number in range(rounds):
            self.round(number)
        texts, prompt, dtype = self.case
        peers = {name: facts if "failed" in facts else {**summed_up(self.runs[name]), **facts} for name, facts in self.facts.items()}
        return {"id": name_of(self.case), "texts": texts, "prompt": prompt, "dtype": dtype, "peers": peers}


class Comparison:
    def __init__(self, arguments):
        self.arguments, self.threads = arguments, len(os.sched_getaffinity(0))
        self.model = random_decoder(Path(arguments.model_folder) / arguments.size, arguments.size)
        self.stof = Stof(arguments.stof, self.model, arguments.device, self.threads)
        self.loaded = {}
        from tokenizers import Tokenizer
        self.tokenizer = Tokenizer.from_file(str(self.model / "tokenizer.json"))

    def ids_of(self, text):
        return self.tokenizer.encode(text).ids

    def transformers(self, dtype):
        if dtype not in self.loaded:
            self.loaded[dtype] = Transformers(self.model, dtype, self.arguments.device, self.threads)
        return self.loaded[dtype]

    def line(self, case):
        texts, prompt, dtype = case
        tokens, peer = self.arguments.tokens, self.transformers(dtype)
        sentences = (ROOT / "data/sentences.txt").read_text(encoding="utf-8").splitlines()
        prompts = prompts_of(sentences, texts, prompt, lambda text: len(self.ids_of(text)))
        ids = [self.ids_of(text) for text in prompts]
        contenders = {"stof": lambda: self.stof.go_on(prompts, tokens, dtype), EAGER: lambda: peer.go_on(ids, tokens)}
        if self.arguments.device != "cpu":
            contenders[COMPILED] = lambda: peer.go_on_compiled(ids, tokens)
        return Line(case, contenders, lambda made: peer.gap(ids, made))


def head_of(arguments, threads):
    packages = {name: version(name) for name in ("torch", "transformers")}
    asked = {"model": arguments.size, "generated": arguments.tokens, "rounds": arguments.rounds}
    if arguments.device == "cpu":
        found = environment(threads, packages)
        return {"command": "peers generate cpu", **found, "commit": arguments.commit or found["commit"], **asked}, (*SAME, *asked)
    from attention import environment as gpu_environment  # asks torch and nvidia-smi
    found = gpu_environment()
    found["packages"] = {**found["packages"], **packages}
    commit = arguments.commit or "unknown"
    return {"command": "peers generate cuda", "commit": commit, **found, **asked}, ("command", "commit", "device", *asked)


def show(row):
    parts = []
    for name, peer in row["peers"].items():
        if "failed" in peer:
            parts.append(f"{name}: {peer['failed'][:150]}")
        else:
            parts.append(f"{name} {peer['first']['median_us'] * 1e-3:,.1f} + {peer['each']['median_us'] * 1e-3:,.2f} ms, "
                         f"{min(peer['same_tokens'])} the same")  # fmt: skip
    print(f"{row['id']:16} " + "; ".join(parts), flush=True)


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stof", default=str(ROOT / "build/release/stof"))
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--size", choices=list(SIZES), default="Qwen3-0.6B", help="of a model with random weights")
    parser.add_argument("--model-folder", default=str(ROOT / ".cache/peers/models"), help="where it is made, in a folder of its name, unless it is there")
    parser.add_argument("--tokens", type=int, default=64, help="behind each text")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", help="rows whose name, as (8,512) bf16, contains this text")
    parser.add_argument("--seconds", type=float, default=3600, help="until when rows are begun")
    parser.add_argument("--commit", help="that the program was built from; on the CPU this tree's, if not given")
    parser.add_argument("--out", required=True)
    parser.add_argument("--resume", action="store_true", help="rows that the file has are not measured again")
    return parser.parse_args()


def main():
    arguments, begin = options(), time.monotonic()
    head, same = head_of(arguments, len(os.sched_getaffinity(0)))
    results = Results(arguments.out, head, arguments.resume, same=same)
    comparison = Comparison(arguments)
    for case in CASES:
        name = name_of(case)
        if results.has(name) or (arguments.only and not any(text in name for text in arguments.only)):
            continue
        if time.monotonic() - begin > arguments.seconds:
            break
        row = comparison.line(case).measure(arguments.rounds)
        results.add(row)
        show(row)
    print(f"{len(results.data['rows'])} of {len(CASES)} rows, {time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
