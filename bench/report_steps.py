# SPDX-License-Identifier: Apache-2.0
"""Steps of a server on a GPU: the table of bench/peers/steps.py, with shares of the floor, and STOF by two calls and by lists on
the device."""

from report_decode import (asked_note, floor_cell, from_l2, kept_in, mask_cell, peer_cells, peer_notes, ratio_note, share_of,
                           timed_rows)  # fmt: skip
from report_targets import mean_of
from report_values import number, ratio, time_of

BESIDE = {"stof_two": "two calls", "stof_device": "lists on the device"}


def steps_table(data):
    head = ["heads", "d", "dtype", "decoding", "chunks", "in", "mask", "rows", "keys", "floor us", "of", "both floors us", "STOF us",
            "share of the floor", *(f"{what} us" for what in BESIDE.values()), "best peer", "us", "best peer / STOF"]  # fmt: skip
    rows = timed_rows(data)
    return head, [step_line(row) for row in rows], own_notes(data["rows"]) + share_notes(rows) + step_notes(rows) + beside_notes(
        rows, data["rows"]) + peer_notes(data["rows"])  # fmt: skip


def ends(values, form=","):
    least, most = values
    return f"{least:{form}}" if least == most else f"{least:{form}} to {most:{form}}"


def decoding_cell(row):
    """So many items, their queries and keys, and where they are alone in a plan for longer ones."""
    if not row["decoding"]:
        return ""
    room = "" if row["chunks"] or row["planned"] == row["decoding_queries"][1] else f" in a plan for {row['planned']:,}"
    return f"{row['decoding']} x {ends(row['decoding_queries'])} over {ends(row['decoding_keys'])}{room}"


def chunks_cell(row):
    return "; ".join(f"{queries:,} of {keys:,}" for queries, keys in row["chunks"])


def shape_of(row):
    return [f"{row['heads']}:{row['kv_heads']}", f"{row['head_dim']}", row["dtype"]]


def both_floors(row):
    """The time of memory and tensor cores one behind the other."""
    return sum(row["floors_us"].values())


def beside(row, name):
    return time_of(row["peers"].get(name, {}))


def step_line(row):
    others = [beside(row, name) for name in BESIDE]
    return [*shape_of(row), decoding_cell(row), chunks_cell(row), kept_in(row), mask_cell(row), f"{row['rows']:,}", f"{row['keys']:,}",
            floor_cell(row), row["floor_of"], number(both_floors(row)), number(beside(row, "stof")), f"{share_of(row):.2f}",
            *(number(us) if us else "" for us in others), *peer_cells(row)]  # fmt: skip


def named(row):
    items = " beside ".join(cell for cell in (decoding_cell(row), chunks_cell(row)) if cell)
    return "{} heads, d {}, {}: ".format(*shape_of(row)) + f"{items}, {kept_in(row)}, `{row['mask']}`"


def own_notes(rows):
    """Where STOF itself has no time in some."""
    return [asked_note("stof", rows)] if any(beside(row, "stof") is None for row in rows) else []


def kind_of(row):
    if not row["decoding"]:
        return "chunks alone"
    return "decoding beside chunks" if row["chunks"] else "decoding alone"


def share_notes(rows):
    """Of either floor, and of the two together, by kind of step; where the L2 holds the keys there is none."""
    notes, cold = [], [row for row in rows if not from_l2(row)]
    for kind in dict.fromkeys(map(kind_of, cold)):
        found = [row for row in cold if kind_of(row) == kind]
        least, where = min((share_of(row), named(row)) for row in found)
        both = [both_floors(row) / beside(row, "stof") for row in found]
        notes.append(f"{kind}: {len(found)} rows, share of the floor {least:.2f} ({where}) to {max(map(share_of, found)):.2f}; of both "
                     f"floors {min(both):.2f} to {max(both):.2f}")  # fmt: skip
    if len(cold) < len(rows):
        notes.append(f"the L2 holds the keys of {len(rows) - len(cold)} rows from one launch to the next: their floor is none")
    return notes


def step_notes(rows):
    """With how many rows are behind their best peer."""
    kinds = [(kind, lambda row, kind=kind: kind_of(row) == kind) for kind in dict.fromkeys(map(kind_of, rows))]
    pages = [(f"pages of {size}", lambda row, size=size: row["page_size"] == size) for size in sorted({row["page_size"] for row in rows})]
    notes = []
    for name, belongs in [*kinds, *pages, ("together", lambda row: True)]:
        found = [row for row in rows if belongs(row) and ratio(row)]
        if found:
            notes.append(f"{ratio_note(name, found, named)}; behind in {sum(ratio(row) < 1 for row in found)}")
    return notes


def beside_notes(rows, asked):
    """What one call by lists of the host gains or costs, and where there is no other."""
    notes = []
    for name, what in BESIDE.items():
        found = [(beside(row, name) / beside(row, "stof"), named(row)) for row in rows if beside(row, name)]
        if found:
            least, where = min(found)
            notes.append(f"STOF by {what} / by one call with lists of the host: {len(found)} rows, geometric mean "
                         f"{mean_of([value for value, _ in found]):.2f}, least {least:.2f} ({where})")  # fmt: skip
        notes.append(asked_note(name, asked))
    return notes
