#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of docs/fusion.md from `stof bench model --part grid` and bench/peers/models.py; with --more those of
the models beside the grid, from `--part more` and bench/peers/modernbert.py.

usage: bench/fusion_table.py [--more] GRID.json PEERS.json...
"""

import json
import math
import sys
from pathlib import Path

from pasted import markdown, paste

PAGE = Path(__file__).resolve().parent.parent / "docs/fusion.md"
ABLATIONS = ["none", "fusion", "attention", "both"]


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


def best_peer(peers, place, column="device_us"):
    right = [row for row in peers if place_of(row) == place and column in row and row["mode"] != "eager"]
    return min((row for row in right if column != "device_us" or unpaused(row)), key=lambda row: row[column], default=None)


def main_table(rows, peers):
    lines, ratios, wall_ratios = [], [], []
    for row in rows:
        times = {}
        for time in row["plan"]["confirmed"]:  # "tuned", "tuned 2", "refined": what measuring found
            what = time["what"] if time["what"] in ("default", "analytical") else "tuned"
            times[what] = min(time["us"], times.get(what, math.inf))
        peer, waited = best_peer(peers, place_of(row)), best_peer(peers, place_of(row), "wall_us")
        line = [*heading(place_of(row)), *(f"{times[what]:,.0f}" for what in ("default", "analytical", "tuned")),
                f"{row['median_us']:,.0f}", known(row, "{:,.0f}", "wall", "median_us"), f"`{row['plan']['scheme']}`", known(row, "{:.1f}", "tuning", "search_seconds"),
                known(row, "{:.1f}", "tuning", "seconds"), known(row, "{:.0e}", "f32_error")]  # fmt: skip
        if peer:
            ratios.append(peer["device_us"] / row["median_us"])
            wall_ratios.append(waited["wall_us"] / row["wall"]["median_us"])
            line += [f"{peer['device_us']:,.0f}", f"{peer['mode']}, {peer['attention']}", f"{ratios[-1]:.2f}",
                     f"{waited['wall_us']:,.0f}", waited["mode"], f"{wall_ratios[-1]:.2f}"]  # fmt: skip
        lines.append(line + ["-"] * (18 - len(line)))
    head = ["model", "mask", "texts x tokens", "default", "analytical", "tuned", "kept", "wall", "scheme that won", "search, s", "with compiling, s",
            "off from f32", "torch.compile", "its best", "torch / best", "torch, wall", "mode", "walls"]  # fmt: skip
    if not ratios:
        return markdown(head, lines)
    return markdown(head, lines) + f"\nDevice times, torch / best: {mean_of(ratios)}. Wall times: {mean_of(wall_ratios)}.\n"


def ablation_table(rows):
    """Where any part was left out."""
    times = {}
    for row in rows:
        times.setdefault(place_of(row), {})[row["ablation"]] = row["median_us"]
    lines = [[*heading(place), *(f"{of[name]:,.0f}" if name in of else "-" for name in ABLATIONS), f"{of['none'] / of['both']:.2f}"]
             for place, of in times.items() if "none" in of and "both" in of]  # fmt: skip
    if not lines:
        return ""
    head = ["model", "mask", "texts x tokens", "none", "fusion alone", "masked attention alone", "both", "none / both"]
    return "\nWhat each part brings, us:\n\n" + markdown(head, lines)


def peer_table(peers):
    """Every variant of the peers; nothing where each case has one."""
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
    return "\nWhat torch took, device and wall us, and what it compiled for:\n\n" + markdown(["model", "mask", "texts x tokens", "attention", *modes], lines)


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
    head = ["model", "mask", "texts x tokens", "activations", "with weights", "torch, at most"]
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
    grid, *torches = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    peers = [row for report in torches for row in report["rows"]]
    whole = [row for row in grid["rows"] if row["ablation"] == "both"]
    key = whole[0]["plan"]["key"]
    links = ", ".join(f"[{path.name}](../bench/results/{path.name})" for path in paths)
    text = (f"{key['device']}, {key['dtype']}, device time in us by replaying a graph; driver {key['driver']}, CUDA {key['cuda']}, cuBLASLt "
            f"{key['blas']}, torch {', '.join(sorted({report['torch'] for report in torches}))}; commit {grid['commit']}. From {links}.\n\n"
            + main_table(whole, peers) + ablation_table(grid["rows"]) + peer_table(peers) + memory_table(whole, peers))  # fmt: skip
    if more:
        paste(PAGE, "fusion-more-h200", text)
    else:
        paste(PAGE, "fusion-h200", text + moves(whole))


if __name__ == "__main__":
    main()
