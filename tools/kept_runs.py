# SPDX-License-Identifier: Apache-2.0
"""Runs that a page of docs counts: those that a file of bench/results has, with further ones from files of lines."""

import json
import sys
from pathlib import Path


def runs_named(usage: str) -> list[str]:
    """The files that the command line names; where one is an option, the usage ends the program."""
    if any(name.startswith("-") for name in sys.argv[1:]):
        sys.exit(usage.strip())
    return sys.argv[1:]


def add_runs(results: Path, names: list[str], key_of, command: str) -> list[dict]:
    """All runs in the order of their keys; of two with one key the later one. The file holds them a line each."""
    known = json.loads(results.read_text(encoding="utf-8"))["runs"] if results.exists() else []
    more = [json.loads(line) for name in names for line in Path(name).read_text(encoding="utf-8").splitlines()]
    runs = {key_of(run): run for run in known + more}
    kept = [runs[key] for key in sorted(runs)]
    rows = ",\n  ".join(json.dumps(run) for run in kept)
    results.write_text(f'{{"command": "{command}", "runs": [\n  {rows}\n]}}\n', encoding="utf-8")
    return kept
