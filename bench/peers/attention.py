# SPDX-License-Identifier: Apache-2.0
"""Masked attention of everybody else, on the same masks: FlexAttention, SDPA, FlashAttention 4, cuDNN. Each peer is
checked against an fp32 reference before it is timed; one that fails or is missing is recorded with its reason.

    python bench/peers/attention.py --out peers.json [--only SUBSTRING] [--seconds 240]
"""
from __future__ import annotations

import argparse
import json
import sys
import time

import torch
from masks import MaskCase, bigbird, causal, dilated, documents, longformer, window
from providers import PROVIDERS, NotTaken
from timing import WrongOutput, check, device_time_us, reference


def cases():
    """(B, H, S, d) and the masks of the table: widths follow the square root of the length."""
    for batch, heads, length, dim, half in [(1, 12, 128, 64, 8), (8, 12, 512, 64, 8), (1, 12, 1024, 64, 8),
                                            (16, 12, 1024, 64, 8), (1, 12, 4096, 64, 16), (16, 12, 4096, 64, 16),
                                            (1, 32, 16384, 128, 256)]:
        w = 2 * half
        masks = [causal(), window(w), dilated(w, 2), longformer(w, w), bigbird(length, 64, 3, 2, 3, 1)]
        if length >= 1024:
            masks.append(documents(length))
        for mask in masks:
            yield (batch, heads, length, dim), mask


def bench_case(shape, mask: MaskCase, dtype, deadline):
    batch, heads, length, dim = shape
    torch.manual_seed(0)
    q, k, v = (torch.randn(batch, heads, length, dim, device="cuda", dtype=dtype) for _ in range(3))
    dense = mask.dense(length)
    rows = torch.unique(torch.cat([torch.arange(min(length, 96)), torch.arange(max(0, length - 96), length),
                                   torch.randint(0, length, (64,))])).cuda()
    want = reference(q, k, v, dense, rows)
    row = {"mask": mask.text, "shape": list(shape), "dtype": str(dtype).removeprefix("torch."),
           "density": dense.float().mean().item(), "peers": {}}
    for name, provider in PROVIDERS.items():
        if time.monotonic() > deadline:
            break
        try:
            started = time.monotonic()
            run, output = provider(q, k, v, mask, dense)
            run()
            torch.cuda.synchronize()
            prepare_s = time.monotonic() - started
            frobenius, worst = check(output(), want, rows, dtype)
            row["peers"][name] = {"burst_us": device_time_us(run), "frobenius": frobenius, "worst_row": worst,
                                  "prepare_s": prepare_s}
        except NotTaken as reason:
            row["peers"][name] = {"refused": str(reason)}
        except (WrongOutput, Exception) as error:  # a peer's failure must not end the comparison
            row["peers"][name] = {"failed": f"{type(error).__name__}: {str(error)[:300]}"}
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--only", default="", help="rows whose mask or shape contains this text")
    parser.add_argument("--dtype", default="float16", choices=["float16", "bfloat16"])
    parser.add_argument("--seconds", type=float, default=240, help="stop after this long and keep what is measured")
    parser.add_argument("--commit", default="")
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.seconds
    environment = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda,
                   "commit": arguments.commit}
    rows = []
    for shape, mask in cases():
        label = f"{','.join(map(str, shape))} {mask.text}"
        if arguments.only not in label:
            continue
        if time.monotonic() > deadline:
            print("time is over; the remaining rows are left out", file=sys.stderr)
            break
        row = bench_case(shape, mask, getattr(torch, arguments.dtype), deadline)
        rows.append(row)
        times = {name: peer["burst_us"] for name, peer in row["peers"].items() if "burst_us" in peer}
        best = min(times, key=times.get) if times else "none"
        print(f"{label[:60]:60} best {best:16} {times.get(best, float('nan')):9.2f} us  "
              + " ".join(f"{name}={value:.1f}" for name, value in sorted(times.items(), key=lambda item: item[1])[1:4]),
              flush=True)
        with open(arguments.out, "w") as file:
            json.dump({"environment": environment, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
