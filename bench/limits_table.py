#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of docs/decisions/0010-words-are-stored.md: stream kernels with the words of partial tiles from memory
beside those that compute them.

usage: bench/limits_table.py LIMITS.json, rows as `stof calibrate --device cuda --json` has them; instances that end in _l1
take the first and last key of each row from a table, in _l2 from two widths
"""

from pasted import ROOT, link, markdown, paste, read, results_named

PAGE = ROOT / "docs/decisions/0010-words-are-stored.md"
FORMS = ["_l1", "_l2"]


def limited(instance):
    return instance.endswith(tuple(FORMS))


def same(plan, other):
    keys = ["splits", "key_step", "residues"]
    return [plan[key] for key in keys] == [other[key] for key in keys]


def line_of(row):
    timed = [plan for plan in row["plans"] if "us" in plan and plan["kernel"] == "stream_attention"]
    stored = min((plan for plan in timed if not limited(plan["instance"])), key=lambda plan: plan["us"])
    line = [f"{tuple(row['shape'][:2] + row['shape'][4:])}".replace(" ", ""), f"`{short(row['mask'])}`",
            f"{stored['instance']} / {stored['splits']}", f"{stored['us']:.2f}"]  # fmt: skip
    for form in FORMS:
        twin = next((plan for plan in timed if plan["instance"] == stored["instance"] + form and same(plan, stored)), None)
        line.append(f"{twin['us']:.2f} ({100 * (twin['us'] / stored['us'] - 1):+.1f} %)" if twin else "-")
    best = min((plan["us"] for plan in timed if limited(plan["instance"])), default=None)
    return [*line, f"{best:.2f} ({100 * (best / stored['us'] - 1):+.1f} %)" if best else "-"]


def short(mask):
    return mask if len(mask) < 40 else f"{mask.split('(')[0]}(...){mask.rsplit(')', 1)[1]}"


def main():
    [path] = results_named(__doc__)
    data = read(path)
    head = ["shape", "mask", "fastest with stored words", "us", "limits from a table", "limits by widths", "fastest with limits"]
    source = f"{link(path, PAGE)}: {data['device']}, driver {data['driver']}, {data['day']}.\n\n"
    paste(PAGE, "limits", source + markdown(head, [line_of(row) for row in data["rows"]]))


if __name__ == "__main__":
    main()
