# SPDX-License-Identifier: Apache-2.0
"""Decode attention on a GPU: the table of bench/peers/decode.py, with shares of the bandwidth floor."""

from gpu_rates import copy_rate
from report_targets import mean_of
from report_values import best_peer, is_ours, number, ratio, time_of


def decode_table(data):
    head = ["items", "keys", "in", "mask", "floor us", "STOF us", "share of the floor", "best peer", "us", "best peer / STOF"]
    rows = timed_rows(data)
    lines = [decode_line(row) for row in rows]
    if any(drawn(row) for row in rows):
        head, lines = ["heads", "d", "dtype", "queries", *head], [shape_of(row) + line for row, line in zip(rows, lines)]
    return head, lines, share_notes(rows) + ratio_notes(rows) + peer_notes(data["rows"])


def timed_rows(data):
    """Those with a time of STOF, with the floor that the memory of the file's GPU has: older files have an H200's."""
    return [{**row, **floor_of(row, data.get("device", ""))} for row in data["rows"] if time_of(row["peers"]["stof"])]


def floor_of(row, device):
    """Of what the row has; a chunk's tensor cores may be the slower ones."""
    if "bytes" not in row:
        return {}
    memory, of = row["bytes"] / copy_rate(device) / 1e6, row.get("floor_of", "memory")
    return {} if of != "memory" and memory <= row["floor_us"] else {"floor_us": memory, "floor_of": "memory"}


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


def from_l2(row):
    """The floor is that of the memory, and the L2 holds the keys."""
    return row.get("in_l2", False) and row.get("floor_of", "memory") == "memory"


def mask_cell(row):
    return "`" + row["mask"].replace("|", "\\|") + "`"


def floor_cell(row):
    return number(row["floor_us"]) + (", in the L2" if from_l2(row) else "")


def peer_cells(row):
    """The best one, its time, and the ratio."""
    peer = best_peer(row, False)
    return [peer[0], number(peer[1]), f"{ratio(row):.2f}"] if peer else ["", "", ""]


def decode_line(row):
    return [f"{row['batch']}", f"{row['keys']:,}", kept_in(row), mask_cell(row), floor_cell(row),
            number(time_of(row["peers"]["stof"])), f"{share_of(row):.2f}", *peer_cells(row)]  # fmt: skip


def named(row):
    shape = f"queries {row['queries']}: " if row.get("queries", 1) > 1 else ""
    if drawn(row):
        shape = "{} heads, d {}, {}, queries {}: ".format(*shape_of(row))
    return f"{shape}{row['batch']} x {row['keys']:,} in {kept_in(row)}, `{row['mask']}`"


def share_notes(rows):
    """By mask, or by kind of mask where each is drawn; of rows that say so the L2 holds the keys, and the floor is none."""
    notes, cold = [], [row for row in rows if not from_l2(row)]
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
    return [note for name, belongs in groups if (note := ratio_note(name, [row for row in rows if belongs(row)]))]


def ratio_note(name, rows, named=named):
    """None where no row has a peer."""
    found = [(ratio(row), named(row)) for row in rows if ratio(row)]
    if not found:
        return None
    least, where = min(found)
    mean = mean_of([value for value, _ in found])
    return (f"{name}: {len(found)} rows with a peer, best peer / STOF, geometric mean {mean:.2f}, "
            f"least {least:.2f} ({where})")  # fmt: skip


def peer_notes(rows):
    names = dict.fromkeys(name for row in rows for name in row["peers"])
    return [asked_note(name, rows) for name in names if not is_ours(name)]


def asked_note(name, rows):
    """In how many rows it was timed, and why not in the others."""
    timed = sum(time_of(row["peers"].get(name, {})) is not None for row in rows)
    reasons = dict.fromkeys(reason.splitlines()[0][:80].rstrip(' :') for row in rows for key in ("refused", "failed")
                            if (reason := row["peers"].get(name, {}).get(key)))  # fmt: skip
    return f"{name}: timed in {timed} of {len(rows)} rows" + (f"; else {'; '.join(reasons)}" if reasons else "")
