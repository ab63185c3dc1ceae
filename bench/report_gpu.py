# SPDX-License-Identifier: Apache-2.0
"""Attention on a GPU: tables and plots of the comparison with peers, and of what the choice between kernels loses."""

import math

from gpu_rates import MATMUL_TFLOP_PER_S, copy_rate
from report_failures import failures
from report_targets import grouped, target_notes, target_of
from report_values import best_peer, number, ratio, time_of

FAMILIES = {"stof": "stof", "flex": "FlexAttention", "sdpa": "SDPA", "fa4": "FlashAttention 4", "cudnn": "cuDNN"}


def family_of(name):
    return next(shown for prefix, shown in FAMILIES.items() if name.startswith(prefix))


def pairs(row):
    """Allowed ones, over all items and heads."""
    batch, heads, length, _ = row["shape"]
    return batch * heads * length * row.get("keys", length) * row["density"]


def floor_us(row, device=""):
    """No program takes less: every tensor from memory once, of keys and values those that some row sees, or every allowed product, or its exponential. Rates: of the
    device's memory; of both GPUs those of products, and 16 exponentials a cycle on each of 132 multiprocessors at 1.98 GHz."""
    batch, heads, length, dim = row["shape"]
    moved = 4 * batch * (heads * length + row.get("kv_heads", heads) * row.get("keys_used", length)) * dim
    return max(moved / (1e6 * copy_rate(device)), 4 * dim * pairs(row) / (1e6 * MATMUL_TFLOP_PER_S), pairs(row) / (16 * 132 * 1980))


def is_chunk(row):
    """Queries at the end of more keys."""
    return row.get("keys", row["shape"][2]) != row["shape"][2]


def ratio_of(row, key):
    """How many times longer the best peer takes, by another time than the hot one; None without both."""
    times = [peer[key] for name, peer in row["peers"].items() if name != "stof" and key in peer]
    own = row["peers"]["stof"].get(key)
    return min(times) / own if times and own else None


def named(row):
    short = len(row["mask"]) < 40 or ", seed " in row["mask"]  # a name in place of a longer text
    mask = row["mask"] if short else row["mask"].split("(")[0] + "(...)"
    mask = mask.replace("|", "\\|")
    if row["family"] == "documents":
        mask = "documents(...) & causal"
    sizes = [str(size) for size in row["shape"]]
    if grouped(row):
        sizes[1] += f":{row['kv_heads']}"
    if is_chunk(row):
        sizes[2] += f" on {row['keys']}"
    return f"({','.join(sizes)}) {row['dtype']} `{mask}`"


def runner_up(row):
    """The best peer of another family than the best one's."""
    first = family_of(best_peer(row, False)[0])
    times = [(time_of(peer), name) for name, peer in row["peers"].items()
             if time_of(peer) and name != "stof" and family_of(name) != first]  # fmt: skip
    return min(times) if times else None


def peers_table(data):
    head = ["problem", "density", "STOF us", "target", "cold", "steady", "best peer", "us", "next", "us", "best peer / STOF",
            "cold", "steady", "TFLOP/s", "x floor"]  # fmt: skip
    rows = [row for row in data["rows"] if ratio(row)]
    table = [peers_line(row, data.get("device", "")) for row in rows]
    used = [i for i in range(len(head)) if any(line[i] for line in table)]
    left = [f"without a time of STOF, or of any peer: {named(row)}" for row in data["rows"] if not ratio(row)]
    return ([head[i] for i in used], [[line[i] for i in used] for line in table],
            summaries(rows) + target_notes(rows, named) + left + asked(data["rows"]) + failures(data["rows"]))  # fmt: skip


def asked(rows):
    """Who was timed how often: a peer that was not asked cannot be the best."""
    found = {}
    for row in rows:
        for family in {family_of(name) for name, peer in row["peers"].items() if time_of(peer)}:
            found[family] = found.get(family, 0) + 1
    counts = [f"{name} {found[name]}" for name in FAMILIES.values() if name in found and name != "stof"]
    return [f"timed in so many of the {len(rows)} rows: {', '.join(counts)}"]


def peers_line(row, device):
    ours, (best, us), other = row["peers"]["stof"], best_peer(row, False), runner_up(row)
    text = lambda value: number(value) if value else ""
    share = lambda value: f"{value:.2f}" if value else ""
    return [named(row), f"{100 * row['density']:.1f} %", number(time_of(ours)), text(target_of(row)), text(ours.get("cold_us")),
            text(ours.get("steady_us")), best, number(us), other[1] if other else "", number(other[0]) if other else "",
            share(ratio(row)), share(ratio_of(row, "cold_us")), share(ratio_of(row, "steady_us")),
            number(4e-6 * row["shape"][3] * pairs(row) / time_of(ours)), f"{time_of(ours) / floor_us(row, device):.2f}"]  # fmt: skip


def groups_of(rows):
    """What is summed up together."""
    table = [row for row in rows if group_of(row) == "table"]
    masked = [row for row in table if row["family"] != "causal"]
    for dtype in ("f16", "bf16"):
        alike = [row for row in masked if row["dtype"] == dtype]
        for dim in (64, 128):
            yield f"masked, {dtype}, d {dim}", [row for row in alike if row["shape"][3] == dim]
        yield f"masked, {dtype}, together", alike
    yield "masked, together", masked
    yield "causal", [row for row in table if row["family"] == "causal"]
    yield "other masks", [row for row in rows if group_of(row) == "others"]
    yield "chunks of longer texts", [row for row in rows if group_of(row) == "chunks"]
    yield "heads that share keys", [row for row in rows if group_of(row) == "grouped"]


def group_of(row):
    known = ("causal", "window", "dilated", "longformer", "bigbird", "documents")
    if is_chunk(row):
        return "chunks"
    if grouped(row):
        return "grouped"
    return "table" if row["family"] in known else "others"


def summaries(rows):
    notes = []
    for name, chosen in groups_of(rows):
        found = [(ratio(row), named(row)) for row in chosen if ratio(row)]
        if not found:
            continue
        mean = math.exp(sum(math.log(value) for value, _ in found) / len(found))
        least, where = min(found)
        notes.append(f"{name}: {len(found)} rows, best peer / STOF, geometric mean {mean:.2f}, least {least:.2f} ({where})")
    return notes


def regret_table(data):
    """`stof calibrate --regret`: the problems where the choice loses most."""
    head = ["problem", "regret", "chosen", "us", "fastest", "us"]
    table = [[" ".join(one["id"].split(" ", 2)[:2]) + f" `{one['id'].split(' ', 2)[2]}`".replace("|", "\\|"), f"{100 * one['regret']:.1f} %", one["chosen"],
              number(one["chosen_us"]), one["best"], number(one["best_us"])] for one in data["regrets"][:12]]  # fmt: skip
    none = sum(one["regret"] == 0 for one in data["regrets"])
    plans = sum("us" in plan for row in data["rows"] for plan in row["plans"])
    notes = [f"{len(data['regrets'])} problems, {plans:,} plans measured: mean regret {100 * data['mean_regret']:.1f} %, "
             f"worst {100 * data['worst_regret']:.1f} %, none in {none}"]  # fmt: skip
    return head, table, notes


def series(rows):
    """{title: {family: [(length, ms)]}} of d 64 and f16: by kind of mask, for one item and for several."""
    found = {}
    for row in rows:
        batch, _, length, dim = row["shape"]
        if dim != 64 or row["dtype"] != "f16" or group_of(row) != "table":
            continue
        lines = found.setdefault(f"{row['family']}, {'one item' if batch == 1 else 'several items'}", {})
        best = {}
        for name, peer in row["peers"].items():
            if time_of(peer):
                best[family_of(name)] = min(best.get(family_of(name), math.inf), time_of(peer))
        for name, us in best.items():
            lines.setdefault(name, []).append((length, us * 1e-3))
    return found
