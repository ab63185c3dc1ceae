# SPDX-License-Identifier: Apache-2.0
"""Decode attention on a GPU: the table of bench/peers/decode.py, with shares of the bandwidth floor."""

from report_targets import mean_of
from report_values import best_peer, number, ratio, time_of


def decode_table(data):
    head = ["items", "keys", "in", "mask", "floor us", "STOF us", "share of the floor", "best peer", "us", "best peer / STOF"]
    rows = [row for row in data["rows"] if time_of(row["peers"]["stof"])]
    return head, [decode_line(row) for row in rows], share_notes(rows) + peer_notes(data["rows"])


def kept_in(row):
    return f"pages of {row['page_size']}" if row["page_size"] else "rows"


def share_of(row):
    """The time that the memory must take, over the time taken; past 1 where a copy is no limit, or the L2 holds the keys."""
    return row["floor_us"] / time_of(row["peers"]["stof"])


def decode_line(row):
    peer, own = best_peer(row, False), time_of(row["peers"]["stof"])
    return [f"{row['batch']}", f"{row['keys']:,}", kept_in(row), "`" + row["mask"].replace("|", "\\|") + "`", number(row["floor_us"]),
            number(own), f"{share_of(row):.2f}", peer[0] if peer else "", number(peer[1]) if peer else "",
            f"{ratio(row):.2f}" if peer else ""]  # fmt: skip


def named(row):
    return f"{row['batch']} x {row['keys']:,} in {kept_in(row)}, `{row['mask']}`"


def share_notes(rows):
    notes = []
    for mask in dict.fromkeys(row["mask"] for row in rows):
        found = [(share_of(row), named(row)) for row in rows if row["mask"] == mask]
        least, where = min(found)
        notes.append(f"`{mask}`: {len(found)} rows, share of the floor {least:.2f} ({where}) to {max(found)[0]:.2f}")
    for name, chosen in (("rows", [r for r in rows if not r["page_size"]]), ("pages", [r for r in rows if r["page_size"]])):
        found = [(ratio(row), named(row)) for row in chosen if ratio(row)]
        if found:
            least, where = min(found)
            notes.append(f"keys in {name}: {len(found)} rows with a peer, best peer / STOF, geometric mean "
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
