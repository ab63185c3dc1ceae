#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keeps the output of `stof demo` under bench/results/, with the day and the processor, and puts it into README.md
between its two demo marks.

usage: build/release/stof demo --model DIR --data data | tools/paste_demo.py COMMIT
"""

import datetime
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from pasted import paste  # noqa: E402


def machine():
    doctor = subprocess.run(
        [ROOT / "build/release/stof", "doctor", "--json", "-"], capture_output=True, text=True, check=True
    ).stdout
    cpu = json.loads(doctor)["cpu"]
    return f"{cpu['name']}, {cpu['instruction_sets'][0]}, {cpu['threads']} threads"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    output = sys.stdin.read().rstrip()
    if not output:
        sys.exit("paste_demo: no output on standard input; README.md is left as it is")
    result = {
        "commit": sys.argv[1],
        "day": str(datetime.date.today()),
        "machine": machine(),
        "output": output.split("\n"),
    }
    kept = ROOT / f"bench/results/{result['commit']}-demo.json"
    kept.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    source = f"Of {result['day']}, on {result['machine']} ([{kept.name}](bench/results/{kept.name})):"
    paste(ROOT / "README.md", "demo", f"{source}\n\n```text\n{output}\n```\n")


if __name__ == "__main__":
    main()
