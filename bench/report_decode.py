# SPDX-License-Identifier: Apache-2.0
"""Decode attention on a GPU: the table of bench/peers/decode.py, with shares of the bandwidth floor."""

from report_targets import mean_of
from report_values import best_peer, number, ratio, time_of


def decode_table(data):
    head = ["items", "keys", "in", "mask", "floor us", "STOF us", "share of the floor", "best peer", "us", "best peer / STOF"]
    rows = [row for row in data["rows"] if time_of(row["peers"]["stof"])]
    lines = [decode_line(row) for row in rows]
    if any(drawn(row) for row in rows):
        head, lines = ["heads", "d", "dtype", "queries", *head], [shape_of(row) + line for row, line in zip(rows, lines)]
    return head, lines, share_notes(rows) + ratio_notes(rows) + peer_notes(data["rows"])


def drawn(row):
    """By a seed: shape, dtype and queries are its own."""
    return "family" in row


def shape_of(row):
    return [f"{row['heads']}:{row['kv_heads']}", f"{row['head_dim']}", row["dtype"], f"{row['queries']}"]


def kept_in(row):
    return f"pages of {row['page_size']}" if row["page_size"] else "rows"


def share_of(row):
    """The time that the memory must take, over the time taken; past 1 where a copy is no limit, or the L2 holds the keys."""
    return row["floor_us"] / time_of(row["peers"]["stof"])


def decode_line(row):
    peer, own = best_peer(row, False), time_of(row["peers"]["stof"])
    floor = number(row["floor_us"]) + (", in the L2" if row.get("in_l2") else "")
    return [f"{row['batch']}", f"{row['keys']:,}", kept_in(row), "`" + row["mask"].replace("|", "\\|") + "`", floor,
            number(own), f"{share_of(row):.2f}", peer[0] if peer else "", number(peer[1]) if peer else "",
            f"{ratio(row):.2f}" if peer else ""]  # fmt: skip


def named(row):
    shape = "{} heads, d {}, {}, queries {}: ".format(*shape_of(row)) if drawn(row) else ""
    return f"{shape}{row['batch']} x {row['keys']:,} in {kept_in(row)}, `{row['mask']}`"


def share_notes(rows):
    """By mask, or by kind of mask where each is drawn; of rows that say so the L2 holds the keys, and the floor is none."""
    notes, cold = [], [row for row in rows if not row.get("in_l2")]
    kind = lambda row: row["family"] if drawn(row) else f"`{row['mask']}`"
    for name in dict.fromkeys(map(kind, cold)):
        found = [(share_of(row), named(row)) for row in cold if kind(row) == name]
        least, where = min(found)
        notes.append(f"{name}: {len(found)} rows, share of the floor {least:.2f} ({where}) to {max(found)[0]:.2f}")
    if len(cold) < len(rows):
        notes.append(f"the L2 holds the keys of {len(rows) - len(cold)} rows from one launch to the next: their floor is none")
    return notes


def ratio_notes(rows):
    groups = [("keys in rows", lambda row: not row["page_size"]), ("keys in pages", lambda row: row["page_size"])]
    if any(drawn(row) for row in rows):
        groups += [("one query", lambda row: row["queries"] == 1), ("several queries", lambda row: row["queries"] > 1),
                   ("keys in the L2", lambda row: row["in_l2"]), ("together", lambda row: True)]  # fmt: skip
    notes = []
    for name, belongs in groups:
        found = [(ratio(row), named(row)) for row in rows if belongs(row) and ratio(row)]
        if found:
            least, where = min(found)
            notes.append(f"{name}: {len(found)} rows with a peer, best peer / STOF, geometric mean "
                         f"{mean_of([value for value, _ in found]):.2f}, least {least:.2f} ({where})")  # fmt: skip
    return notes


def peer_notes(rows):
    """For each peer, in how many rows it was timed, and why not in the others."""
    notes = []
    for name in dict.fromkeys(name for row in rows for name in row["peers"]):
        timed = sum(time_of(row["peers"].get(name, {})) is not None for row in rows)
        reasons = dict.fromkeys(reason.splitlines()[0][:80].rstrip(' :') for row in rows for key in ("refused", "failed")
                                if (reason := row["peers"].get(name, {}).get(key)))  # fmt: skip
        if name != "stof":
            notes.append(f"{name}: timed in {timed} of {len(rows)} rows" + (f"; else {'; '.join(reasons)}" if reasons else ""))
    return notes
