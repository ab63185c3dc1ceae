#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keeps the output of `stof demo` under bench/results/, with the day and the processor, and puts it into README.md
between its two demo marks. Of another machine, whose `stof doctor --json DOCTOR.json` comes along: with its GPU, and the first
paragraph into docs/benchmarks.md.

usage: build/release/stof demo --model DIR --data data | tools/paste_demo.py COMMIT [DOCTOR.json DAY]
"""

import datetime
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from pasted import link, paste  # noqa: E402


def doctor_here():
    return subprocess.run(
        [ROOT / "build/release/stof", "doctor", "--json", "-"], capture_output=True, text=True, check=True
    ).stdout


def machine(doctor):
    cpu = doctor["cpu"]
    return f"{cpu['name']}, {cpu['instruction_sets'][0]}, {cpu['threads']} threads"


def gpu(doctor):
    return f"{doctor['gpu']['devices'][0]['name']}, driver {doctor['gpu']['driver']}, CUDA {doctor['gpu']['cuda']}"


def section(kept, page, mark):
    """What stands between the marks: of another machine the first paragraph."""
    result = json.loads(kept.read_text(encoding="utf-8"))
    output = "\n".join(result["output"])
    shown = output.split("\n\n")[0] if mark == "demo-gpu" else output
    return f"Of {result['day']}, on {result['machine']} ({link(kept, page)}):\n\n```text\n{shown}\n```\n"


def main():
    if len(sys.argv) not in (2, 4):
        sys.exit(__doc__.strip())
    elsewhere = len(sys.argv) == 4
    output = sys.stdin.read().rstrip()
    if not output:
        sys.exit("paste_demo: no output on standard input; README.md is left as it is")
    doctor = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8") if elsewhere else doctor_here())
    result = {
        "commit": sys.argv[1],
        "day": sys.argv[3] if elsewhere else str(datetime.date.today()),
        "machine": gpu(doctor) if elsewhere else machine(doctor),
        "output": output.split("\n"),
    }
    page, mark = (ROOT / "docs/benchmarks.md", "demo-gpu") if elsewhere else (ROOT / "README.md", "demo")
    kept = ROOT / f"bench/results/{result['commit']}-{mark}.json"
    kept.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    paste(page, mark, section(kept, page, mark))


if __name__ == "__main__":
    main()
