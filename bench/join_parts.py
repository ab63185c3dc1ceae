#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Joins the files that parts of one comparison wrote (bench/peers/attention.py --part, bench/peers/decode.py --part), each
measured on a GPU of its own, into one, with its rows in the order of the cases.

usage: bench/join_parts.py OUT.json PART.json...
"""

import json
import sys
from pathlib import Path

DIFFERS = ("rows", "clocks")  # of the clocks one is that of a GPU at rest


def head_of(data):
    return {key: value for key, value in data.items() if key not in DIFFERS}


def joined(parts):
    """One comparison of several, by file name; a ValueError says what does not belong together."""
    (first, data), *others = parts.items()
    rows = list(data["rows"])
    for name, other in others:
        for key in sorted(head_of(data).keys() | head_of(other).keys()):
            if data.get(key) != other.get(key):
                raise ValueError(f"{first} was measured with {key} {data.get(key)}, {name} with {other.get(key)}")
        rows += other["rows"]
    seen = set()
    for row in rows:
        if row["place"] in seen:
            raise ValueError(f"{row['id']} is there twice")
        seen.add(row["place"])
    return {**data, "rows": sorted(rows, key=lambda row: row["place"])}


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__.split("\n\n")[-1].strip())
    parts = {name: json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[2:]}
    try:
        data = joined(parts)
    except ValueError as reason:
        sys.exit(f"join_parts: {reason}")
    Path(sys.argv[1]).write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    print(f"{len(data['rows'])} rows of {len(parts)} files")


if __name__ == "__main__":
    main()
