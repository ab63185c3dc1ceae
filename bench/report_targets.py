# SPDX-License-Identifier: Apache-2.0
"""What attention on a GPU was to take, beside what it takes; and figures of peers that were kept and not measured again."""

import functools
import json
import math
from pathlib import Path

from report_values import number, ratio, time_of

PEERS = Path(__file__).resolve().parent / "peers"


@functools.cache
def kept(name):
    return json.loads((PEERS / name).read_text(encoding="utf-8"))


def target_of(row):
    """us; None for a row that has no target."""
    for known in kept("attention_targets.json")["targets"]:
        if known["shape"] == row["shape"] and not grouped(row):
            return known["us"].get(row["family"])
    return None


def grouped(row):
    """Several heads of q share one of k and v."""
    return row.get("kv_heads", row["shape"][1]) != row["shape"][1]


def mean_of(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def reached(rows, named):
    """For each dtype, how many rows take no longer than their target, and which do."""
    notes = []
    for dtype in ("f16", "bf16"):
        found = [(time_of(row["peers"]["stof"]), target_of(row), named(row)) for row in rows
                 if row["dtype"] == dtype and target_of(row) and time_of(row["peers"]["stof"])]  # fmt: skip
        missed = [f"{name} {number(us)} for {number(target)}" for us, target, name in found if us > target]
        if found:
            late = f"; later are {', '.join(missed)}" if missed else ""
            notes.append(f"targets, {dtype}: {len(found) - len(missed)} of {len(found)} rows take no longer than theirs{late}")
    return notes


def wanted_ratio(rows):
    """Of the masked rows that have targets, by dtype."""
    wanted, notes = kept("attention_targets.json")["ratio"], []
    for dtype in ("f16", "bf16"):
        found = [ratio(row) for row in rows if row["dtype"] == dtype and row["family"] != "causal" and target_of(row) and ratio(row)]
        if found:
            notes.append(f"wanted of masked rows in {dtype}: a geometric mean of {wanted['mean']} and none under {wanted['least']:.1f}; "
                         f"there are {mean_of(found):.3f} and {min(found):.2f}")  # fmt: skip
    return notes


def stored(rows, named):
    """Kept figures, beside the rows that they are of."""
    notes = []
    for figure in kept("attention_stored.json")["rows"]:
        for row in rows:
            if all(row[key] == figure[key] for key in ("shape", "dtype", "family")) and not grouped(row):
                own = time_of(row["peers"]["stof"])
                notes.append(f"stored, of an {kept('attention_stored.json')['device']} before this comparison, at a clock that was not "
                             f"kept: {figure['peer']} {number(figure['us'])} us for {named(row)}, {figure['us'] / own:.2f} times "
                             "what STOF takes here")  # fmt: skip
    return notes


def errors(rows):
    """The largest of outputs, which every timed peer was checked by."""
    notes = []
    for dtype in ("f16", "bf16"):
        found = {"stof": [], "peers": []}
        for row in rows:
            for peer, result in row["peers"].items() if row["dtype"] == dtype else ():
                if "frobenius" in result:
                    found["stof" if peer == "stof" else "peers"].append(result["frobenius"])
        if found["stof"] and found["peers"]:
            notes.append(f"relative error of outputs in {dtype} (Frobenius, against fp32), at most: STOF {max(found['stof']):.1e}, "
                         f"peers {max(found['peers']):.1e}")  # fmt: skip
    return notes


def target_notes(rows, named):
    return reached(rows, named) + wanted_ratio(rows) + stored(rows, named) + errors(rows)
