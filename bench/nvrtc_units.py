#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What NVRTC takes for each kernel by itself: every unit that `make cuda` compiles but the bf16 twins of those in f16, for the
target that the library compiles it for at run time, and GEMM shapes that a search asks for. Writes OUT.json and the table of
docs/decisions/0008-no-precompiled-prelude.md. Needs NVRTC and a build configured with CUDA, no GPU.

usage: nvrtc_units.py LIBNVRTC BUILD OUT.json
       nvrtc_units.py --table OUT.json
"""

import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

from pasted import markdown, paste
from prelude import INSTANCE, ROOT, SHAPES, Nvrtc

PAGE = ROOT / "docs/decisions/0008-no-precompiled-prelude.md"
LIMIT = 1.0
RUNS = 3  # of what takes longer than the limit; the least counts: a busy machine only adds


def target_of(name):
    return "sm_80" if name.startswith("mma") else "sm_90a"


def units(build):
    """Name, source and target."""
    for file in sorted(build.rglob("*.cu")):
        if "_bf16_" not in file.stem:
            yield file.stem, file.read_text(encoding="utf-8"), target_of(file.stem)
    for shape in SHAPES:
        yield "gemm " + shape, INSTANCE.format(shape), "sm_90a"


def measured(nvrtc, source, target):
    times = [nvrtc.compiled(source, [], target)[:2]]
    while len(times) < RUNS and times[-1][1] > LIMIT:
        times.append(nvrtc.compiled(source, [], target)[:2])
    return {"user_s": min(user for _, user in times), "wall_s": min(wall for wall, _ in times), "runs": len(times)}


def template_of(source):
    return Path(re.search(r'#include "(kernels/cuda/[^"]+)"', source)[1]).stem


def run(library, build, out):
    nvrtc = Nvrtc(library)  # reads all headers
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    nvrtc.compiled('extern "C" __global__ void f() {}\n', [])
    rows = []
    for name, source, target in units(build):
        rows.append({"unit": name, "template": template_of(source), "target": target, **measured(nvrtc, source, target)})
        print(f"{rows[-1]['user_s']:6.2f} s  {name} {target}", flush=True)
    processor = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))[1]
    report = {"command": "bench/nvrtc_units.py", "commit": commit.stdout.strip(), "compiler": nvrtc.version(),
              "processor": processor, "load": os.getloadavg()[0], "limit_s": LIMIT, "rows": rows}  # fmt: skip
    out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def table(path):
    report = json.loads(path.read_text(encoding="utf-8"))
    templates = {}
    for row in report["rows"]:
        templates.setdefault((row["template"], row["target"]), []).append(row)
    lines = []
    for (template, target), rows in sorted(templates.items()):
        slowest = max(rows, key=lambda row: row["user_s"])
        above = sum(row["user_s"] > report["limit_s"] for row in rows)
        lines.append([f"`{template}`", target, str(len(rows)), f"{statistics.median(row['user_s'] for row in rows):.2f}",
                      f"{slowest['user_s']:.2f}", f"`{slowest['unit']}`", str(above)])  # fmt: skip
    head = ["template", "target", "units", "median, s", "most, s", "of", f"above {report['limit_s']:.0f} s"]
    above = [row for row in report["rows"] if row["user_s"] > report["limit_s"]]
    source = (f"[bench/results/{path.name}](../../bench/results/{path.name}): {report['compiler']}, {report['processor']}; "
              f"commit {report['commit']}; load {report['load']:.1f}.\n\n")  # fmt: skip
    paste(PAGE, "nvrtc-units", source + markdown(head, lines) + f"\n{len(above)} of {len(report['rows'])} units take longer "
          f"than {report['limit_s']:.0f} s of a processor.")  # fmt: skip


def main():
    words = sys.argv[1:]
    if len(words) == 2 and words[0] == "--table":
        table(Path(words[1]))
    elif len(words) == 3:
        run(words[0], Path(words[1]), Path(words[2]))
        table(Path(words[2]))
    else:
        sys.exit(__doc__.strip())


if __name__ == "__main__":
    main()
