#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a decoder's prompts take until the first token of each text is there, by predicted plans and by those that
`stof tune --prompts` finds: `stof generate`, processes in turns, the median of what their later passes say.

usage: tuned_prompts.py OUT.json --model DIR [--stof STOF] [--dtype bf16] [--budget 20s] [--turns 3] [--commit C] BxS ...
needs: a GPU; plans go to the cache folder, XDG_CACHE_HOME, and predictions run with an empty one"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "bench/peers")]
import stof  # noqa: E402
from decoders import prompts_of  # noqa: E402

PASSES, FIRST = 12, 4  # of a process; until then plans are made, and what is recorded is brought to the device


def tuned(options, texts: int, tokens: int) -> dict:
    """What the search says of whole models, of the hidden states alone."""
    command = [options.stof, "tune", "--model", options.model, "--prompts", "--batch", str(texts), "--seq", str(tokens), "--dtype", options.dtype,
               "--device", "cuda", "--budget", options.budget, "--json", "-"]  # fmt: skip
    plan = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {"origin": plan["origin"], "scheme": plan["scheme"], "search_s": plan["search"]["seconds"],
            "whole_us": {of["what"]: of["us"] for of in plan["confirmed"]}}  # fmt: skip


def first_tokens(options, prompts: Path, environment: dict) -> list[float]:
    command = [options.stof, "generate", "--model", options.model, "--input", str(prompts), "--tokens", "2", "--go-on", "--passes", str(PASSES),
               "--dtype", options.dtype, "--device", "cuda", "--json", "-"]  # fmt: skip
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **environment})
    if "plans:" in done.stderr:
        raise SystemExit(done.stderr)
    return [1000 * each["first_seconds"] for each in json.loads(done.stdout)["passes"][FIRST:]]


def measure(options, texts: int, tokens: int, folder: Path) -> dict:
    row = {"texts": texts, "prompt": tokens, "tune": tuned(options, texts, tokens)}
    sentences = (ROOT / "data/sentences.txt").read_text(encoding="utf-8").splitlines()
    with stof.Session(options.model, "cuda", options.dtype, logits=True) as session:
        found = prompts_of(sentences, texts, tokens, lambda text: len(session.tokenize([text])[0]))
    prompts = folder / "prompts.txt"
    prompts.write_text("\n".join(found) + "\n", encoding="utf-8")
    ways: dict = {"predicted": {"XDG_CACHE_HOME": str(folder / "empty")}, "tuned": {}}
    times: dict = {way: [] for way in ways}
    for _ in range(options.turns):
        for way, environment in ways.items():
            times[way] += first_tokens(options, prompts, environment)
    return {**row, **{way + "_ms": round(statistics.median(of), 3) for way, of in times.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("cases", nargs="+", metavar="BxS")
    parser.add_argument("--model", required=True)
    parser.add_argument("--stof", default=str(ROOT / "build/release/stof"))
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--budget", default="20s")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--commit", default="unknown")
    options = parser.parse_args()
    found = {"command": "bench/tuned_prompts.py", "commit": options.commit, "model": Path(options.model).name, "dtype": options.dtype, "rows": []}
    with tempfile.TemporaryDirectory() as folder:
        for case in options.cases:
            row = measure(options, *map(int, case.split("x")), Path(folder))
            found["rows"].append(row)
            Path(options.out).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            print(f"{case:>8}  predicted {row['predicted_ms']:.3f} ms, tuned {row['tuned_ms']:.3f} "
                  f"({row['tune']['origin']}, {row['tune']['search_s']:.1f} s)", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
