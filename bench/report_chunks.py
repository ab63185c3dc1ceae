# SPDX-License-Identifier: Apache-2.0
"""Chunks of prompts on a GPU: the table of bench/peers/decode.py --chunks, with shares of the floor and the same keys in rows."""

from report_decode import (drawn, floor_cell, kept_in, mask_cell, named, peer_cells, peer_notes, ratio_note, shape_of, share_notes,
                           share_of, timed_rows)  # fmt: skip
from report_targets import mean_of
from report_values import number, ratio, time_of


def chunks_table(data):
    head = ["queries", "items", "keys", "in", "mask", "floor us", "of", "STOF us", "share of the floor", "in rows us", "best peer",
            "us", "best peer / STOF"]  # fmt: skip
    rows = timed_rows(data)
    lines = [[f"{row['queries']:,}", *chunk_line(row)] for row in rows]
    if any(drawn(row) for row in rows):
        head, lines = ["heads", "d", "dtype", *head], [shape_of(row)[:3] + line for row, line in zip(rows, lines)]
    return head, lines, share_notes(rows) + chunk_notes(rows) + page_notes(rows) + peer_notes(data["rows"])


def in_rows(row):
    """What STOF takes for the same keys in rows; None where they lie so, or that was not timed."""
    return time_of(row["peers"].get("stof_rows", {}))


def chunk_line(row):
    beside = in_rows(row)
    return [f"{row['batch']}", f"{row['keys']:,}", kept_in(row), mask_cell(row), floor_cell(row), row["floor_of"],
            number(time_of(row["peers"]["stof"])), f"{share_of(row):.2f}", number(beside) if beside else "",
            *peer_cells(row)]  # fmt: skip


def chunk_notes(rows):
    """With how many rows are behind their best peer."""
    groups = [("keys in rows", lambda row: not row["page_size"]), ("keys in pages", lambda row: row["page_size"]),
              ("floor of the memory", lambda row: row["floor_of"] == "memory"),
              ("floor of the tensor cores", lambda row: row["floor_of"] != "memory"), ("together", lambda row: True)]  # fmt: skip
    notes = []
    for name, belongs in groups:
        found = [row for row in rows if belongs(row) and ratio(row)]
        if found:
            notes.append(f"{ratio_note(name, found)}; behind in {sum(ratio(row) < 1 for row in found)}")
    return notes


def page_notes(rows):
    """By the size of pages, what they cost."""
    notes = []
    for size in sorted({row["page_size"] for row in rows}):
        found = [(time_of(row["peers"]["stof"]) / in_rows(row), named(row)) for row in rows
                 if row["page_size"] == size and in_rows(row)]  # fmt: skip
        if found:
            most, where = max(found)
            notes.append(f"STOF in pages of {size} / in rows: {len(found)} rows, geometric mean "
                         f"{mean_of([value for value, _ in found]):.2f}, most {most:.2f} ({where})")  # fmt: skip
    return notes
