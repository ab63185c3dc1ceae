#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Joins the files that parts of one comparison wrote (bench/peers/attention.py --part, decode.py, steps.py and trees.py there), each
measured on a GPU of its own, into one, with its rows in the order of the cases.

Files belong together where command, GPU, driver, libraries and the cases asked for ("cases", "drawn", "chunks", "steps", "trees") are the
same, and a place is one case: the same id in every file, and no other place's.

usage: bench/join_parts.py [--renew] OUT.json PART.json...
--renew: files may be of several commits and days. Rows of later files stand in place of those that earlier ones have, each with its own. What "cases" a file is of may
not be said in it, as in older ones, where it has rows in common with the others.
"""

import json
import sys
from pathlib import Path

LEFT = "not_run"  # names of rows that there was no time for
DIFFERS = ("rows", "clocks", LEFT)  # of the clocks one is that of a GPU at rest
CASES = "cases"  # which ones were asked for
OF_ROWS = ("commit", "day")  # that each row of a renewed file has for itself


def check_heads(parts, differs):
    first, data = next(iter(parts.items()))
    for name, part in parts.items():
        for key in sorted((data.keys() | part.keys()) - set(differs)):
            if data.get(key) != part.get(key):
                raise ValueError(f"{first} was measured with {key} {data.get(key)}, {name} with {part.get(key)}; accepted: the same")


def check_cases(parts):
    """A place stands for one case, and a case for one place."""
    ids, places = {}, {}
    for name, part in parts.items():
        for row in part["rows"]:
            place, case = row["place"], row["id"]
            if ids.setdefault(place, (case, name))[0] != case:
                raise ValueError(f"place {place} is {ids[place][0]} in {ids[place][1]}, {case} in {name}; accepted: the same case")
            if places.setdefault(case, (place, name))[0] != place:
                raise ValueError(f"{case} has place {places[case][0]} in {places[case][1]}, {place} in {name}; accepted: one place")


def check_said(parts):
    """Of files that say their cases all say the same; one that does not, of before that was said, has a row in common with the
    others."""
    saying = {name: part for name, part in parts.items() if CASES in part}
    if saying:
        check_heads(saying, {key for part in saying.values() for key in part} - {CASES})
    for name, part in parts.items():
        others = {row["id"] for other, one in parts.items() if other != name for row in one["rows"]}
        if saying and name not in saying and not others & {row["id"] for row in part["rows"]}:
            raise ValueError(f"{name} does not say its cases and has no row of the other files; accepted: a row in common")


def joined(parts):
    """One comparison of several, by file name; a ValueError says what does not belong together."""
    check_heads(parts, DIFFERS)
    rows = {}
    for row in (row for part in parts.values() for row in part["rows"]):
        if row["place"] in rows and rows[row["place"]]["id"] == row["id"]:
            raise ValueError(f"{row['id']} is there twice")
        rows[row["place"]] = row
    check_cases(parts)
    left = {LEFT: [name for part in parts.values() for name in part[LEFT]]} if all(LEFT in part for part in parts.values()) else {}
    return {**next(iter(parts.values())), **left, "rows": [rows[place] for place in sorted(rows)]}


def renewed(parts):
    """The same of several commits and days: the last row of a case stands."""
    check_heads(parts, (*DIFFERS, *OF_ROWS, CASES))
    check_said(parts)
    check_cases(parts)
    rows = {row["place"]: {**{key: part[key] for key in OF_ROWS}, **row} for part in parts.values() for row in part["rows"]}
    heads = {key: ", ".join(dict.fromkeys(row[key] for row in rows.values())) for key in OF_ROWS}
    said = next(({CASES: part[CASES]} for part in parts.values() if CASES in part), {})
    return {**next(iter(parts.values())), **said, **heads, "rows": [rows[place] for place in sorted(rows)]}


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
