# SPDX-License-Identifier: Apache-2.0
"""Tables of what users of transformers call: models that make vectors beside their own, and continuous batching by several
attentions."""
from report_values import milliseconds

OURS = "stof"
OF_VECTORS = ("longformer", "embedding_gemma", "encoders", "biased_encoders")  # of bench/peers; the last is encoders.py as it was called


def failures_of(peers):
    return {name: peer["failed"].split(".")[0] for name, peer in peers.items() if "failed" in peer}


def vectors_table(data):
    """Of what OF_VECTORS names. Who failed stands below."""
    of_models, with_global = (key in data["rows"][0] for key in ("model", "global_tokens"))
    times = [{name: peer["median_us"] for name, peer in row["peers"].items() if "median_us" in peer} for row in data["rows"]]
    names = [OURS, *dict.fromkeys(name for found in times for name in found if name != OURS)]
    others = [name for name in names if name != OURS]
    faster = f"{others[0]} / STOF" if len(others) == 1 else "best of them / STOF"
    head = [*(["model", "dtype"] if of_models else []), "texts", "tokens", *(["global"] if with_global else []), *(f"{name}, ms" for name in names), faster, "worst row of STOF"]
    table, failed = [], {}
    for row, found in zip(data["rows"], times):
        failed |= failures_of(row["peers"])
        best = min((us for name, us in found.items() if name != OURS), default=None)
        table.append([*([row["model"], row["dtype"]] if of_models else []), f"{row['texts']}", f"{row['longest']:,}", *([f"{row['global_tokens']}"] if with_global else []),
                      *(milliseconds(found[name]) if name in found else "" for name in names),
                      f"{best / found[OURS]:.1f}" if best and OURS in found else "", f"{row['peers'][OURS]['worst_row']:.1e}" if OURS in found else ""])  # fmt: skip
    calls = max((peer.get("calls", 0) for row in data["rows"] for peer in row["peers"].values()), default=0)
    return head, table, [f"medians of {calls} calls, in turns", *(f"{name}: {why}" for name, why in failed.items())]


def continuous_table(data):
    """bench/peers/continuous.py. Texts of a row are compared with those of its first contender. Who failed stands below."""
    head = ["how", "attention", "seconds", "us a token", "texts with the same first token", "farthest below the likeliest"]
    table, failed = [], {}
    for row in data["rows"]:
        failed |= failures_of(row["peers"])
        timed = {name: peer for name, peer in row["peers"].items() if "failed" not in peer}
        for name, peer in timed.items():
            same = "" if name == next(iter(timed)) else f"{peer['same_first']} of {data['requests']}"
            table.append([row["id"], name, f"{peer['median_us'] * 1e-6:.2f}", f"{peer['each']['median_us']:,.0f}", same, f"{peer['gap']:.2f}"])
    notes = [f"{data['model']}'s sizes, {data['dtype']}, {data['requests']} requests of {data['least']} to {data['most']:,} tokens, {data['made']} behind each"]
    return head, table, [*notes, *(f"{name}: {why}" for name, why in failed.items())]
