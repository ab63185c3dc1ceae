#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package `tokenizers` (Rust) on one thread, as bench/tokenizer.cpp times ours: the same files, line by line.

usage: tokenizer.py MODEL FILE...
"""

import json
import os
import statistics
import sys
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer, __version__  # noqa: E402  (reads the environment)

RUNS = 15
SECONDS_PER_RUN = 0.1


def rate(work, size):
    """Median and best MB/s over runs."""
    rates = []
    for _ in range(RUNS):
        passes, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < SECONDS_PER_RUN:
            work()
            passes += 1
        rates.append(size * passes / (time.perf_counter() - begin) / 1e6)
    return statistics.median(rates), max(rates)


def time_file(tokenizer, path):
    with open(path, encoding="utf-8", newline="\n") as file:
        lines = file.read().removesuffix("\n").split("\n")
    size = sum(len(line.encode()) for line in lines)
    encodings = tokenizer.encode_batch(lines)
    # One call for all lines, so that Python's own share is small; encode_batch_fast leaves out the offsets.
    median, best = rate(lambda: tokenizer.encode_batch(lines), size)
    median_fast, best_fast = rate(lambda: tokenizer.encode_batch_fast(lines), size)
    return {"file": path, "lines": len(lines), "bytes": size, "tokens": sum(len(e.ids) for e in encodings),
            "id_sum": sum(sum(e.ids) for e in encodings), "mb_per_s": median, "best_mb_per_s": best,
            "without_offsets_mb_per_s": median_fast, "best_without_offsets_mb_per_s": best_fast}


def main():
    begin = time.perf_counter()
    tokenizer = Tokenizer.from_file(os.path.join(sys.argv[1], "tokenizer.json"))
    load_ms = 1e3 * (time.perf_counter() - begin)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    rows = [time_file(tokenizer, path) for path in sys.argv[2:]]
    print(json.dumps({"tokenizers": __version__, "threads": 1, "load_ms": load_ms, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
