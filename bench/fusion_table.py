#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of docs/fusion.md from what `stof tune` and bench/peers/masked_models.py have measured.

usage: bench/fusion_table.py bench/results/h200-fusion.json
"""

import json
import math
import sys
from pathlib import Path

from pasted import markdown, paste

PAGE = Path(__file__).resolve().parent.parent / "docs/fusion.md"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    path = Path(sys.argv[1])
    report = json.loads(path.read_text(encoding="utf-8"))
    rows, ratios = [], []
    for plan, peer in zip(report["plans"], report["peers"]["rows"], strict=True):
        times = {time["what"]: time["us"] for time in plan["confirmed"]}
        best = times[plan["origin"]]
        ratios.append(peer["device_us"] / best)
        call = f"{peer['texts']}, {peer['longest']:,}"
        rows.append([peer["model"], f"`{peer['mask']}`", call, *(f"{times[what]:,.0f}" for what in ("default", "analytical", "tuned")),
                     f"`{plan['scheme']}`", f"{plan['search']['seconds']:.1f}", f"{peer['device_us']:,.0f}", f"{ratios[-1]:.2f}"])  # fmt: skip
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    head = ["model", "mask", "texts, tokens", "default", "analytical", "tuned", "scheme that won", "search, s", "torch.compile",
            "torch / best"]  # fmt: skip
    key = report["plans"][0]["key"]
    text = (f"{key['device']}, f16, device time in us by replaying a graph; driver {key['driver']}, CUDA {key['cuda']}, cuBLASLt "
            f"{key['blas']}, torch {report['peers']['torch']} (default mode; SDPA under `all`, FlexAttention at block 64 else).\n"
            f"From [bench/results/{path.name}](../bench/results/{path.name}).\n\n"
            + markdown(head, rows)
            + f"\nGeometric mean of the last column {mean:.2f}, least {min(ratios):.2f}.")  # fmt: skip
    paste(PAGE, "fusion-h200", text)


if __name__ == "__main__":
    main()
