# SPDX-License-Identifier: Apache-2.0
"""Decoders that go on behind texts: the table of bench/peers/generate.py, until the first token and for each one behind it."""

from report_failures import failures
from report_targets import mean_of
from report_values import is_ours, milliseconds, ratio, time_of

PARTS = {"first": "first token", "each": "each behind it"}
COLD = "stof (first call of a process)"


def contenders(rows):
    return sorted({name for row in rows for name in row["peers"]}, key=lambda name: (not is_ours(name), name))


def part_of(row, part):
    """The row as if this part were all that was timed."""
    return {**row, "peers": {name: peer.get(part, {}) for name, peer in row["peers"].items()}}


def with_first_calls(row):
    """Those of STOF's processes as a contender of their own; nobody asks who is faster."""
    cold = row["peers"].get("stof", {}).get("cold")
    return {**row, "peers": {**row["peers"], COLD: cold}} if cold else row


def part_cells(row, part, names):
    found = part_of(row, part)
    times = [time_of(found["peers"].get(name, {})) for name in names]
    faster = ratio(found)
    return [*(milliseconds(us) if us else "" for us in times), f"{faster:.2f}" if faster else ""]


def same_cell(row):
    """Until where STOF's texts are those of transformers."""
    same = row["peers"].get("stof", {}).get("same_tokens")
    if not same:
        return ""
    return f"{min(same)}" if min(same) == max(same) else f"{min(same)} to {max(same)}"


def ratio_notes(rows):
    notes = []
    for part, words in PARTS.items():
        found = [(value, row["id"]) for row in rows if (value := ratio(part_of(row, part)))]
        if found:
            least, where = min(found)
            mean = mean_of([value for value, _ in found])
            notes.append(f"{words}: best peer / STOF, geometric mean {mean:.2f}, least {least:.2f} ({where})")
    return notes


def spread_notes(rows, names):
    """How far a contender's calls lie apart at most, as a part of their median."""
    notes = []
    for name in names:
        apart = {part: [] for part in PARTS}
        for row in rows:
            for part in PARTS:
                took = row["peers"].get(name, {}).get(part, {})
                if took.get("calls", 0) > 1:
                    apart[part].append((took["most_us"] - took["best_us"]) / took["median_us"])
        if any(apart.values()):
            notes.append(f"{name}, the slowest call less the fastest, over the median, at most: " +
                         ", ".join(f"{PARTS[part]} {100 * max(found):.0f} %" for part, found in apart.items()))  # fmt: skip
    return notes


def call_notes(rows, rounds):
    """Who was asked less often than the rest, being far behind."""
    once = [f"{name} {row['id']}" for row in rows for name, peer in row["peers"].items() if peer.get("calls", rounds) < rounds]
    return [f"far behind, so timed less often than {rounds} times: {', '.join(once)}"] if once else []


def gap_notes(rows):
    gaps = [(peer["gap"], row["id"]) for row in rows for name, peer in row["peers"].items() if is_ours(name) and "gap" in peer]
    if not gaps:
        return []
    most, where = max(gaps)
    return [f"where its texts differ, no token of STOF's is further below the likeliest of transformers than {most:.2g} standard "
            f"deviations of its scores ({where})"]  # fmt: skip


def generate_table(data):
    """A row a case; the same columns for both parts."""
    rows = [with_first_calls(row) for row in data["rows"]]
    names = contenders(rows)
    head = ["texts", "tokens before", "dtype"]
    for words in PARTS.values():
        head += [*(f"{words}: {name}, ms" for name in names), "best peer / STOF"]
    table = [[f"{row['texts']}", f"{row['prompt']}", row["dtype"], *(cell for part in PARTS for cell in part_cells(row, part, names)),
              same_cell(row)] for row in rows]  # fmt: skip
    begin = f"{data['model']}'s sizes, random weights; medians of {data['rounds']} calls, {data['generated']} tokens behind each text"
    return [*head, "the same tokens"], table, [begin, *ratio_notes(rows), *gap_notes(rows), *call_notes(rows, data["rounds"]),
                                               *spread_notes(rows, names), *failures(rows)]  # fmt: skip
