# SPDX-License-Identifier: Apache-2.0
"""What runs of peers on the CPU share: who runs where, times of contenders taken in turns, and results that appear row
by row and can be gone on with."""
from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REST_S = 0.08  # between contenders: threads that still spin slow down the next; those of ONNX Runtime do so for 45 ms
SAME = ("command", "commit", "processor", "threads")  # what rows of one file must have in common


def git(*arguments) -> str:
    return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=True).stdout.strip()


def environment(threads: int, packages: dict) -> dict:
    commit = git("describe", "--always", "--abbrev=7", "--exclude=*")
    if git("status", "--porcelain", "--untracked-files=no", "--", ":!bench/results", ":!docs"):  # what this run writes
        commit += "-dirty"
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    processor = next((line.split(": ", 1)[1] for line in lines if line.startswith("model name")), "unknown")
    return {"commit": commit, "day": time.strftime("%Y-%m-%d", time.gmtime()), "processor": processor,
            "threads": threads, "load": os.getloadavg()[0], "packages": packages}


def times_of(times: list) -> dict:
    """What calls took, us, as `stof bench` says it of its own."""
    return {"median_us": statistics.median(times), "best_us": min(times), "calls": len(times)}


FAR_BEHIND = 8  # times the fastest contender: no best peer of a row is, beside STOF in bf16, and such a one is not asked again


def rounds(runs: dict, seconds: float, least: int = 15, most: int = 60) -> dict:
    """Times of every contender, us: in each round every one runs once after a run that is not counted, so that what
    else the machine does falls on all of them. One that is FAR_BEHIND leaves after its first round, lest those that are
    compared have one round beside its slow ones. Rounds end after `seconds` when there are `least`, or after twelve
    times as long."""
    times: dict = {name: [] for name in runs}
    staying = dict(runs)
    begin = time.monotonic()
    for done in range(1, most + 1):
        for name, run in staying.items():
            time.sleep(REST_S)
            run()
            before = time.perf_counter()
            run()
            times[name].append(1e6 * (time.perf_counter() - before))
        spent = time.monotonic() - begin
        if (done >= least and spent >= seconds) or spent >= 12 * seconds:
            break
        fastest = min(min(times[name]) for name in staying)
        staying = {name: run for name, run in staying.items() if min(times[name]) <= FAR_BEHIND * fastest}
    return {name: times_of(taken) for name, taken in times.items()}


class Results:
    """A file of results; each row has an "id". An earlier file is gone on with when it was measured under the same
    conditions."""

    def __init__(self, path: str, head: dict, resume: bool, same=SAME):
        self.path, self.data = Path(path), {**head, "rows": []}
        if resume and self.path.exists():
            earlier = json.loads(self.path.read_text(encoding="utf-8"))
            for key in same:
                if earlier.get(key) != head[key]:
                    raise SystemExit(f"{path} was measured with {key} {earlier.get(key)}; this run has {head[key]}; accepted: the same, "
                                     "or another file")  # fmt: skip
            self.data = {**earlier, **head, "rows": earlier["rows"]}  # the roofline of earlier rows stays
            for name, version in earlier.get("packages", {}).items():
                self.data["packages"].setdefault(name, version)

    def has(self, name: str) -> bool:
        return any(row["id"] == name for row in self.data["rows"])

    def add(self, row: dict):
        self.data["rows"].append(row)
        self.write()

    def write(self):
        draft = self.path.with_suffix(".draft")
        draft.write_text(json.dumps(self.data, indent=1) + "\n", encoding="utf-8")
        draft.rename(self.path)


def show(name: str, peers: dict):
    times = sorted((peer["median_us"], other) for other, peer in peers.items() if "median_us" in peer)
    print(f"{name[:64]:64} " + "  ".join(f"{other} {us:,.0f}" for us, other in times), flush=True)
