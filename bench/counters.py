#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hardware counters of one launch of an attention kernel, by Nsight Compute, of the problems of docs/kernels/attention-log.md.

usage: bench/counters.py STOF OUT.json COMMIT     on a machine with a GPU and ncu: measures
       bench/counters.py RESULT.json              writes the page's table
"""

import csv
import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from pasted import ROOT, link, markdown, paste, read

PAGE = ROOT / "docs/kernels/attention-log.md"
SHAPES = ["16,12,4096,64", "1,12,4096,64", "8,12,512,64", "1,12,1024,64"]
FOUR = ["causal", "bigbird(64,3,2,3,1)", "longformer({0},{0})", "window({0})"]
LONG = ["causal", "window(512)", "longformer(512,512)", "bigbird(64,3,2,3,1)"]
PROBLEMS = [(mask.format(32 if "4096" in shape else 16), shape) for shape in SHAPES for mask in FOUR]
PROBLEMS += [(mask, "1,32,16384,128") for mask in LONG] + [(mask, "2,8,2048,256") for mask in ("causal", "window(128)")]
SHARES = {"tensor cores": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
          "issue slots": "sm__issue_active.avg.pct_of_peak_sustained_elapsed",
          "L2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
          "DRAM": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"}  # fmt: skip
WAITS = "smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"
NOT_WAITS = ("selected", "not_selected")


def counters_of(stof, mask, shape, folder):
    """Names to values of the third launch, whose inputs are in the cache as far as they fit it."""
    report = f"{folder}/report.ncu-rep"
    subprocess.run(["ncu", "--clock-control", "none", "--cache-control", "none", "--set", "full", "-k", "regex:attention_kernel", "-s", "2",
                    "-c", "1", "-f", "-o", report, stof, "bench", "attention", "--device", "cuda", "--mask", mask, "--shape", shape,
                    "--dtype", "f16", "--seconds", "0.005"], check=True, capture_output=True)  # fmt: skip
    text = subprocess.run(["ncu", "-i", report, "--page", "raw", "--csv"], check=True, capture_output=True, text=True).stdout
    lines = list(csv.reader(io.StringIO(text)))
    return dict(zip(lines[0], lines[-1]))


def kept(values):
    """Of all counters those that the table has, and every reason to wait."""
    number = {name: float(value.replace(",", "")) for name, value in values.items()
              if name in (*SHARES.values(), "gpu__time_duration.sum") or name.startswith(WAITS[0]) and name.endswith(WAITS[1])}  # fmt: skip
    return {"kernel": values["Kernel Name"].removeprefix("void ").partition("<")[0], **number}


def collect(stof, out, commit):
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for mask, shape in PROBLEMS:
            rows.append({"mask": mask, "shape": shape, "counters": kept(counters_of(stof, mask, shape, folder))})
            Path(out).write_text(json.dumps({"commit": commit, "dtype": "f16", "rows": rows}, indent=1) + "\n", encoding="utf-8")
            print(mask, shape, flush=True)


def line_of(row):
    counters = row["counters"]
    waits = {name[len(WAITS[0]) : -len(WAITS[1])]: value for name, value in counters.items() if name.startswith(WAITS[0])}
    most = sorted((value, name) for name, value in waits.items() if name not in NOT_WAITS)[:-4:-1]
    said = ", ".join(f"{name.replace('_', ' ')} {100 * value / sum(waits.values()):.0f} %" for value, name in most)
    shares = [f"{counters[name]:.0f} %" if name in counters else "-" for name in SHARES.values()]
    kernel = counters["kernel"].removesuffix("_kernel")
    return [f"({row['shape']}) `{row['mask']}`", kernel, f"{counters['gpu__time_duration.sum']:.1f}", *shares, said]


def main():
    if len(sys.argv) == 4:
        return collect(*sys.argv[1:])
    if len(sys.argv) != 2:
        sys.exit(__doc__.partition("usage: ")[2].strip())
    result = read(sys.argv[1])
    head = ["problem, f16", "kernel", "us under ncu", *SHARES, "what warps that do not issue wait for, of their time"]
    paste(PAGE, "counters", f"{link(sys.argv[1], PAGE)}; commit {result['commit']}.\n\n" + markdown(head, map(line_of, result["rows"])))


if __name__ == "__main__":
    main()
