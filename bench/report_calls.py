# SPDX-License-Identifier: Apache-2.0
"""Tables of what users of transformers call: Longformer beside its own model, and continuous batching by several attentions."""
from report_values import milliseconds


def longformer_table(data):
    """bench/peers/longformer.py."""
    names = [name for name in ("stof", "transformers", "transformers, compiled") if any(name in row["peers"] for row in data["rows"])]
    head = ["texts", "tokens", "global", *(f"{name}, ms" for name in names), "best peer / STOF", "worst row of STOF"]
    table = []
    for row in data["rows"]:
        times = {name: peer["median_us"] for name, peer in row["peers"].items() if "median_us" in peer}
        best = min(us for name, us in times.items() if name != "stof")
        table.append([f"{row['texts']}", f"{row['longest']:,}", f"{row['global_tokens']}", *(milliseconds(times[name]) if name in times else "" for name in names),
                      f"{best / times['stof']:.1f}", f"{row['peers']['stof']['worst_row']:.1e}"])  # fmt: skip
    return head, table, [f"medians of {data['rows'][0]['peers']['stof']['calls']} calls, in turns"]


def continuous_table(data):
    """bench/peers/continuous.py. Who failed stands below."""
    head = ["how", "attention", "seconds", "us a token", "texts with the same first token", "farthest below the likeliest"]
    table, failed = [], {}
    for row in data["rows"]:
        for name, peer in row["peers"].items():
            if "failed" in peer:
                failed.setdefault(name, peer["failed"].split(".")[0])
                continue
            table.append([row["id"], name, f"{peer['median_us'] * 1e-6:.2f}", f"{peer['each']['median_us']:,.0f}", f"{peer['same_first']} of {data['requests']}",
                          f"{peer['gap']:.2f}"])  # fmt: skip
    notes = [f"{data['model']}'s sizes, {data['dtype']}, {data['requests']} requests of {data['least']} to {data['most']:,} tokens, {data['made']} behind each"]
    return head, table, [*notes, *(f"{name}: {why}" for name, why in failed.items())]
