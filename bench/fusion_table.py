#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of docs/fusion.md from `stof bench model --part grid` and bench/peers/models.py; with --more those of
the models beside the grid, from `--part more` and bench/peers/modernbert.py. Marks of the page say which GPU, as in fusion-h100; aims are an H200's.

usage: bench/fusion_table.py [--more] GRID.json PEERS.json... [COLD.json] [ABLATIONS.json]
Where PEERS.json have rows that were taken in turns, STOF's among them, these are what is compared; the others say what each
variant of torch takes alone. COLD.json: of `--part grid` too, each row in a new process with empty caches; what the search took
is then of this file. ABLATIONS.json: another run of it with parts left out, where GRID.json has none.
"""

import math
import re
import sys
from pathlib import Path

from pasted import ROOT, link, markdown, paste, read

PAGE = ROOT / "docs/fusion.md"
ABLATIONS = ["none", "fusion", "attention", "both"]
PLACE = ["model", "mask", "texts x tokens"]
BIGBIRD = "bigbird(64,3,2,3,1)"
AIMS_US = {("bert-base", "all", 1, 128): 250, ("bert-base", "all", 8, 512): 1300, ("bert-base", BIGBIRD, 8, 2048): 5000,
           ("bert-base", BIGBIRD, 16, 2048): 10300, ("gpt2", "causal & window(32)", 1, 1024): 420,
           ("gpt2", "causal & window(64)", 8, 2048): 5100, ("bert-large", "longformer(32,32)", 1, 4096): 4600}  # fmt: skip


def place_of(row):
    texts, longest = row["shape"] if "shape" in row else (row["texts"], row["longest"])
    return row["model"], row["mask"], texts, longest


def heading(place):
    model, mask, texts, longest = place
    return [model, f"`{mask}`", f"{texts:,} x {longest:,}"]


def mean_of(ratios):
    return f"geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}, least {min(ratios):.2f}"


def known(row, form, *names):
    """A number of the row, "-" where it has none."""
    for name in names:
        row = (row or {}).get(name)
    return "-" if row is None else form.format(row)


def unpaused(row):
    """Whether its device time is that of calls one behind the other, as STOF's is."""
    return row["mode"] in ("eager", "default") or row.get("unpaused", False)


def of_one_sitting(peers):
    """Rows that were taken in turns at one clock, where there are any; else all."""
    return [row for row in peers if "windows" in row] or peers


def whole_us(row, peers):
    """Of the plan that is kept: beside torch in turns, where that was measured."""
    beside = (peer["device_us"] for peer in peers if peer["mode"] == "stof" and place_of(peer) == place_of(row))
    return next(beside, row["median_us"])


def best_peer(peers, place, column="device_us"):
    right = [row for row in peers if place_of(row) == place and column in row and row["mode"] not in ("eager", "stof")]
    return min((row for row in right if column != "device_us" or unpaused(row)), key=lambda row: row[column], default=None)


def beside(rows, peers, column, own):
    """Kept plans beside the fastest of torch by that column, with what there is to say of all."""
    lines, ratios = [], []
    for row in rows:
        peer = best_peer(peers, place_of(row), column)
        mine = own(row)
        line = [*heading(place_of(row)), "-" if mine is None else f"{mine:,.0f}", "-", "-", "-"]
        if peer and mine is not None:
            ratios.append(peer[column] / mine)
            line[-3:] = [f"{peer[column]:,.0f}", f"{peer['mode']}, {peer['attention']}", f"{ratios[-1]:.2f}"]
        lines.append(line)
    table = markdown([*PLACE, "STOF", "torch.compile", "its fastest", "torch / STOF"], lines)
    return table + (f"\ntorch / STOF: {mean_of(ratios)}.\n" if ratios else "")


def times_table(rows, peers):
    peers = of_one_sitting(peers)
    return ("Device time, us:\n\n" + beside(rows, peers, "device_us", lambda row: whole_us(row, peers))
            + "\nWall time of a call, us:\n\n"
            + beside(rows, peers, "wall_us", lambda row: row.get("wall", {}).get("median_us")))  # fmt: skip


def plans_table(rows):
    """Device times of each plan as a whole model, and the scheme of the one that is kept."""
    lines = []
    for row in rows:
        times = {}
        for time in row["plan"]["confirmed"]:  # "tuned", "tuned 2", "untuned", "refined": what measuring found
            what = time["what"] if time["what"] in ("default", "analytical") else "tuned"
            times[what] = min(time["us"], times.get(what, math.inf))
        lines.append([*heading(place_of(row)), *(f"{times[what]:,.0f}" for what in ("default", "analytical", "tuned")),
                      f"{row['median_us']:,.0f}", f"`{row['plan']['scheme']}`"])  # fmt: skip
    head = [*PLACE, "default", "analytical", "tuned", "kept", "scheme that is kept"]
    return "\nPlans, device time in us:\n\n" + markdown(head, lines)


def alone(row):
    """What the kept plan's nodes take one by one, its matmuls of that, us, and the operations of these."""
    works = row["plan"]["works"]
    texts, longest = row["shape"]
    taken = {True: 0.0, False: 0.0}
    operations = 0
    for work in works:
        sizes = re.match(r"linear (\d+)>(\d+)", work["work"])
        taken[bool(sizes)] += work["us"] * work["count"]
        operations += 2 * texts * longest * int(sizes[1]) * int(sizes[2]) * work["count"] if sizes else 0
    return sum(taken.values()), taken[True], operations


def aims_table(rows, peers, card):
    lines = []
    for row in rows:
        if card == "h200" and (aim := AIMS_US.get(place_of(row))):
            nodes, matmuls, operations = alone(row)
            us = whole_us(row, peers)
            lines.append([*heading(place_of(row)), f"{aim:,}", f"{us:,.0f}", f"{us / aim:.2f}", f"{nodes:,.0f}",
                          f"{matmuls:,.0f}", f"{1e-6 * operations / matmuls:,.0f}"])  # fmt: skip
    if not lines:
        return ""
    head = [*PLACE, "aimed at", "STOF", "STOF / aim", "its nodes one by one", "matmuls of that", "their TFLOP/s"]
    return "\nWhat was aimed at, device time in us:\n\n" + markdown(head, lines)


def search_table(rows):
    stages = {"parts_seconds": "of that nodes", "race_seconds": "whole models", "refining_seconds": "changes of settings"}
    stages = {name: head for name, head in stages.items() if any(name in row["tuning"] for row in rows)}
    lines = [[*heading(place_of(row)), *(known(row, "{:.1f}", "tuning", name) for name in ["search_seconds", *stages, "seconds"]),
              known(row, "{:.0e}", "f32_error")] for row in rows]  # fmt: skip
    head = [*PLACE, "search, s", *stages.values(), "with compiling, s", "off from f32"]
    return "\nWhat finding them took, and how far results are off:\n\n" + markdown(head, lines)


def ablation_table(rows):
    """Where any part was left out."""
    times = {}
    for row in rows:
        times.setdefault(place_of(row), {})[row["ablation"]] = row["median_us"]
    lines = [[*heading(place), *(f"{of[name]:,.0f}" if name in of else "-" for name in ABLATIONS), f"{of['none'] / of['both']:.2f}"]
             for place, of in times.items() if "none" in of and "both" in of]  # fmt: skip
    if not lines:
        return ""
    head = [*PLACE, "none", "fusion alone", "masked attention alone", "both", "none / both"]
    return "\nWhat each part brings, us:\n\n" + markdown(head, lines)


def peer_table(peers):
    """Every variant of the peers, each alone; nothing where each case has one."""
    peers = [row for row in peers if row["mode"] != "stof"]
    peers = [row for row in peers if "windows" not in row] or peers
    modes = sorted({row["mode"] for row in peers})
    variants = {}
    for row in peers:
        cell = "failed"
        if "device_us" in row:
            device = f"{row['device_us']:,.0f}" if unpaused(row) else "-"
            cell = f"{device}, {row['wall_us']:,.0f} ({row['compile_s']:.0f} s)"
        variants.setdefault((place_of(row), row["attention"]), {})[row["mode"]] = cell
    if len(variants) == len({place for place, _ in variants}) and len(modes) == 1:
        return ""
    lines = [[*heading(place), attention, *(of.get(mode, "-") for mode in modes)] for (place, attention), of in variants.items()]
    return "\nWhat torch took, device and wall us, and what it compiled for:\n\n" + markdown([*PLACE, "attention", *modes], lines)


def memory_table(rows, peers):
    lines = []
    for row in rows:
        peer = best_peer(peers, place_of(row))
        if "memory" in row:
            mine = sum(row["memory"].values()) / 2**20
            lines.append([*heading(place_of(row)), f"{row['memory']['activations'] / 2**20:,.0f}", f"{mine:,.0f}",
                          f"{peer['memory_bytes'] / 2**20:,.0f}" if peer and peer.get("memory_bytes") else "-"])  # fmt: skip
    if not lines:
        return ""
    head = [*PLACE, "activations", "with weights", "torch, at most"]
    return "\nMemory of the device, MiB:\n\n" + markdown(head, lines)


def moves(rows):
    for row in rows:
        if row.get("moves"):
            model, mask, texts, longest = place_of(row)
            told = "\n".join("    " + line for line in row["moves"][:12])
            return f"\nOf {model} under `{mask}`, {texts} x {longest}, the beginning of what `--explain` says:\n\n{told}\n"
    return ""


def main():
    more = sys.argv[1:2] == ["--more"]
    paths = [Path(name) for name in sys.argv[2 if more else 1 :]]
    if len(paths) < 2:
        sys.exit(__doc__.strip())
    grid, *others = map(read, paths)
    torches = [report for report in others if "torch" in report]
    runs = [report["rows"] for report in others if "torch" not in report]
    ablations = [row for rows in runs for row in rows if any(other["ablation"] != "both" for other in rows)]
    colds = [row for rows in runs for row in rows if row not in ablations]
    peers = [row for report in torches for row in report["rows"]]
    whole = [row for row in grid["rows"] if row["ablation"] == "both"]
    key = whole[0]["plan"]["key"]
    card = key["device"].split()[1].lower()  # of "NVIDIA H200"
    links = ", ".join(link(path, PAGE) for path in paths)
    commits = ", ".join(dict.fromkeys(report["commit"] for report in [grid, *others] if "commit" in report))
    text = (f"{key['device']}, {key['dtype']}, device time by replaying a graph; driver {key['driver']}, CUDA {key['cuda']}, cuBLASLt "
            f"{key['blas']}, torch {', '.join(sorted({report['torch'] for report in torches}))}; of {commits}. From {links}.\n\n"
            + times_table(whole, peers) + aims_table(whole, peers, card) + plans_table(whole) + search_table(colds or whole) + ablation_table(ablations or grid["rows"])
            + peer_table(peers) + memory_table(whole, peers))  # fmt: skip
    if more:
        paste(PAGE, f"fusion-more-{card}", text)
    else:
        paste(PAGE, f"fusion-{card}", text + (moves(whole) if card == "h200" else ""))


if __name__ == "__main__":
    main()
