#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Joins the files that parts of one comparison wrote (bench/peers/attention.py --part, bench/peers/decode.py --part), each
measured on a GPU of its own, into one, with its rows in the order of the cases.

usage: bench/join_parts.py [--renew] OUT.json PART.json...
--renew: files may be of several commits and days. Rows of later files stand in place of those that earlier ones have, each with its own.
"""

import json
import sys
from pathlib import Path

DIFFERS = ("rows", "clocks")  # of the clocks one is that of a GPU at rest
OF_ROWS = ("commit", "day")  # that each row of a renewed file has for itself


def check_heads(parts, differs):
    first, data = next(iter(parts.items()))
    for name, part in parts.items():
        for key in sorted((data.keys() | part.keys()) - set(differs)):
            if data.get(key) != part.get(key):
                raise ValueError(f"{first} was measured with {key} {data.get(key)}, {name} with {part.get(key)}")


def joined(parts):
    """One comparison of several, by file name; a ValueError says what does not belong together."""
    check_heads(parts, DIFFERS)
    rows = {}
    for row in (row for part in parts.values() for row in part["rows"]):
        if row["place"] in rows:
            raise ValueError(f"{row['id']} is there twice")
        rows[row["place"]] = row
    return {**next(iter(parts.values())), "rows": [rows[place] for place in sorted(rows)]}


def renewed(parts):
    """The same of several commits and days: the last row of a case stands."""
    check_heads(parts, (*DIFFERS, *OF_ROWS))
    rows = {row["place"]: {**{key: part[key] for key in OF_ROWS}, **row} for part in parts.values() for row in part["rows"]}
    heads = {key: ", ".join(dict.fromkeys(row[key] for row in rows.values())) for key in OF_ROWS}
    return {**next(iter(parts.values())), **heads, "rows": [rows[place] for place in sorted(rows)]}


def main():
    arguments, join = sys.argv[1:], joined
    if "--renew" in arguments:
        arguments.remove("--renew")
        join = renewed
    if len(arguments) < 2:
        sys.exit(__doc__.split("\n\n")[-1].strip())
    parts = {name: json.loads(Path(name).read_text(encoding="utf-8")) for name in arguments[1:]}
    try:
        data = join(parts)
    except ValueError as reason:
        sys.exit(f"join_parts: {reason}")
    Path(arguments[0]).write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    print(f"{len(data['rows'])} rows of {len(parts)} files")


if __name__ == "__main__":
    main()
