# SPDX-License-Identifier: Apache-2.0
"""Verifying draft trees on a GPU: the table of bench/peers/trees.py, with shares of the floor, and what trees cost beside a causal
chunk of as many queries."""

from report_decode import (asked_note, floor_cell, from_l2, kept_in, peer_cells, peer_notes, ratio_note, share_of, timed_rows)  # fmt: skip
from report_steps import beside, ends, own_notes, shape_of
from report_targets import mean_of
from report_values import best_peer, number, ratio

FEW = 16  # drafts that decode_attention takes


def trees_table(data):
    head = ["heads", "d", "dtype", "drafts", "tree", "items", "keys of an item", "in", "floor us", "of", "STOF us",
            "share of the floor", "causal us", "trees / causal", "best peer", "us", "best peer / STOF", "on the same keys", "us",
            "/ STOF"]  # fmt: skip
    rows = timed_rows(data)
    return head, [tree_line(row) for row in rows], own_notes(data["rows"]) + share_notes(rows) + tree_notes(rows) + cost_notes(
        rows, data["rows"]) + peer_notes(data["rows"]) + not_run(data)  # fmt: skip


def cost_of(row):
    """How many times as long as a causal chunk; None where that has no time."""
    causal = beside(row, "stof_causal")
    return beside(row, "stof") / causal if causal else None


def lie_elsewhere(row, peer):
    """Where keys lie for this one, where that is not as in the call; else None."""
    lie = peer.get("keys_lie")
    return lie if lie != f"in {kept_in(row)}" else None


def on_same_keys(row):
    """The row without peers that had the keys brought to another place first."""
    return {**row, "peers": {name: peer for name, peer in row["peers"].items() if not lie_elsewhere(row, peer)}}


def peer_cells_of(row):
    """With where keys lie for the best one, and behind it the best one of those that read them where they lie."""
    cells, peer = peer_cells(row), best_peer(row, False)
    lie = peer and lie_elsewhere(row, row["peers"][peer[0]])
    if lie:
        cells[0] += f", {lie}"
    return cells + peer_cells(on_same_keys(row))


def tree_line(row):
    causal, cost = beside(row, "stof_causal"), cost_of(row)
    return [*shape_of(row), f"{row['drafts']}", row["tree"], f"{row['items']}", ends(row["item_keys"]), kept_in(row), floor_cell(row),
            row["floor_of"], number(beside(row, "stof")), f"{share_of(row):.2f}", number(causal) if causal else "",
            f"{cost:.2f}" if cost else "", *peer_cells_of(row)]  # fmt: skip


def named(row):
    return "{} heads, d {}, {}: ".format(*shape_of(row)) + (
        f"{row['items']} x {row['drafts']} drafts, {row['tree']}, over {ends(row['item_keys'])} in {kept_in(row)}")  # fmt: skip


def share_notes(rows):
    """By the floor that is the later one; where the L2 holds the keys that of the memory is none."""
    notes, cold = [], [row for row in rows if not from_l2(row)]
    for limit in dict.fromkeys(row["floor_of"] for row in cold):
        found = [(share_of(row), named(row)) for row in cold if row["floor_of"] == limit]
        least, where = min(found)
        notes.append(f"floor of the {limit}: {len(found)} rows, share of it {least:.2f} ({where}) to {max(found)[0]:.2f}")
    if len(cold) < len(rows):
        notes.append(f"the L2 holds the keys of {len(rows) - len(cold)} rows from one launch to the next: their floor is none")
    return notes


def tree_notes(rows):
    """With how many rows are behind their best peer."""
    groups = [(f"up to {FEW} drafts", lambda row: row["drafts"] <= FEW), ("more drafts", lambda row: row["drafts"] > FEW),
              ("keys in pages", lambda row: row["page_size"]), ("keys in rows", lambda row: not row["page_size"]),
              ("together", lambda row: True)]  # fmt: skip
    groups = [(name, [row for row in rows if belongs(row)]) for name, belongs in groups]
    groups.append(("beside peers on the same keys", [on_same_keys(row) for row in rows]))
    notes = []
    for name, members in groups:
        found = [row for row in members if ratio(row)]
        if found:
            notes.append(f"{ratio_note(name, found, named)}; behind in {sum(ratio(row) < 1 for row in found)}")
    return notes


def cost_notes(rows, asked):
    """What trees cost, and where there is no causal chunk to say it."""
    found = [(cost_of(row), named(row)) for row in rows if cost_of(row)]
    if not found:
        return [asked_note("stof_causal", asked)]
    most, where = max(found)
    return [f"STOF with trees / a causal chunk of as many queries: {len(found)} rows, geometric mean "
            f"{mean_of([value for value, _ in found]):.2f}, most {most:.2f} ({where})", asked_note("stof_causal", asked)]  # fmt: skip


def not_run(data):
    names = data.get("not_run", [])
    return [f"without a time, since that ended: {'; '.join(names)}"] if names else []
