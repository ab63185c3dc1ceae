#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decode attention through libstof.so: device time by CUDA-graph replay and its share of the bandwidth floor. Every timed
output is checked against fp32 attention on the same GPU first.

    python bench/cuda/decode.py LIBSTOF.SO --out FILE.json [--commit ID] [--only TEXT] [--kernel NAME] [--seconds 240]
"""

import argparse
import ctypes as c
import json
import math
import sys
import time
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests" / "capi"), str(ROOT / "bench" / "peers")]
import c_library  # noqa: E402
import timing  # noqa: E402

COPY_TB_PER_S = 4.3  # what a copy kernel reaches on an H200
HEADS, KV_HEADS, HEAD_DIM = 32, 8, 128
WINDOW, SINK = 4096, 4
MASKS = {"all": lambda keys: torch.ones(keys, dtype=torch.bool, device="cuda"),
         f"sink({SINK}) | window({WINDOW})":
             lambda keys: (torch.arange(keys, device="cuda") < SINK) | (torch.arange(keys, device="cuda") >= keys - 1 - WINDOW)}  # fmt: skip


def cases():
    """(batch, keys, page size or 0 for rows, mask)"""
    for mask in MASKS:
        for batch in (1, 16, 64):
            for keys in (8192, 32768, 131072):
                for page in (0, 16, 64, 128):
                    if page in (16, 128) and (batch, keys) not in ((1, 32768), (16, 32768)):
                        continue
                    yield batch, keys, page, mask


class Case:
    def __init__(self, stof, batch, keys, page, mask, kernel, heads=HEADS, queries=1):
        self.stof, self.batch, self.keys, self.page, self.mask, self.heads = stof, batch, keys, page, mask, heads
        torch.manual_seed(1)
        self.q = torch.randn(batch, heads, queries, HEAD_DIM, device="cuda", dtype=torch.float16)
        # Rows of a page lie side by side; items without pages are pages as long as they are.
        size = page or keys
        pages = batch * keys // size
        self.k, self.v = (torch.empty(pages, KV_HEADS, size, HEAD_DIM, device="cuda", dtype=torch.float16).normal_()
                          for _ in range(2))  # fmt: skip
        self.table = torch.randperm(pages, device="cuda").int().view(batch, -1) if page else None
        self.out = torch.full_like(self.q, math.nan)
        self.lse = torch.full((batch, heads, queries), math.nan, device="cuda")
        handle = stof.parse(mask)
        self.plan = stof.plan(handle, (batch, heads, KV_HEADS, queries, keys, HEAD_DIM, c_library.F16), "cuda", kernel)
        stof.library.stof_mask_destroy(handle)
        self.call = self.make_call(queries)

    def make_call(self, queries):
        tensor = lambda x: c_library.Tensor(x.data_ptr(), *x.stride()[:3])
        call = c_library.Call(struct_size=c.sizeof(c_library.Call), dtype=c_library.F16, batch=self.batch,
                              queries=queries, keys=self.keys, q=tensor(self.q), k=tensor(self.k), v=tensor(self.v),
                              out=tensor(self.out), lse=tensor(self.lse))  # fmt: skip
        if self.page:
            call.page_table, call.page_table_stride = self.table.data_ptr(), self.table.stride(0)
            call.page_size, call.pages = self.page, self.k.shape[0]
        return call

    def run(self):
        self.call.stream = torch.cuda.current_stream().cuda_stream
        self.stof.run(self.plan, self.call)

    def close(self):
        self.stof.library.stof_plan_destroy(self.plan)

    def allowed(self):
        return MASKS[self.mask](self.keys)

    def rows(self, pool, item):
        """[kv_heads, keys, d] of one item."""
        if not self.page:
            return pool[item]
        return pool[self.table[item].long()].transpose(0, 1).reshape(KV_HEADS, self.keys, HEAD_DIM)

    def worst_error(self):
        """Relative Frobenius error over first, last and middle items; their LSE within 1e-3."""
        error = norm = 0.0
        for item in sorted({0, self.batch // 2, self.batch - 1}):
            q = self.q[item].float().view(KV_HEADS, -1, HEAD_DIM)
            scores = q @ self.rows(self.k, item).float().transpose(1, 2) / math.sqrt(HEAD_DIM)
            scores.masked_fill_(~self.allowed(), -math.inf)
            want = (torch.softmax(scores, -1) @ self.rows(self.v, item).float()).view_as(self.q[item])
            error += (self.out[item].float() - want).square().sum().item()
            norm += want.square().sum().item()
            lse = torch.logsumexp(scores, -1).view_as(self.lse[item])
            if not (self.lse[item] - lse).abs().max().item() < 1e-3:
                return math.inf
        return math.inf if torch.isnan(self.out).any() else math.sqrt(error / norm)

    def floor_us(self):
        touched = int(self.allowed().sum().item()) * self.batch * KV_HEADS * 2 * HEAD_DIM * 2
        return (touched + 4 * self.q.numel()) / COPY_TB_PER_S / 1e6


def measure(stof, case, kernel):
    batch, keys, page, mask = case
    made = Case(stof, batch, keys, page, mask, kernel)
    try:
        made.run()
        torch.cuda.synchronize()
        error = made.worst_error()
        row = {"batch": batch, "heads": HEADS, "kv_heads": KV_HEADS, "head_dim": HEAD_DIM, "dtype": "f16", "keys": keys,
               "page_size": page, "mask": mask, "error": error, "floor_us": made.floor_us(),
               "plan": json.loads(stof.library.stof_plan_description(made.plan))["instance"],
               "predicted_us": json.loads(stof.library.stof_plan_description(made.plan))["predicted_us"]}  # fmt: skip
        if not error < 2e-3:
            row["failed"] = "wrong output"
            return row
        row["us"] = timing.device_time_us(made.run)
        row["share_of_floor"] = row["floor_us"] / row["us"]
        return row
    finally:
        made.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--out", required=True)
    parser.add_argument("--commit", default="")
    parser.add_argument("--only", default="", help="rows whose name contains this text")
    parser.add_argument("--kernel", default="decode_attention")
    parser.add_argument("--seconds", type=float, default=240, help="stop after this long and keep what is measured")
    arguments = parser.parse_args()
    stof, deadline, rows = c_library.Stof(arguments.library), time.monotonic() + arguments.seconds, []
    environment = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "commit": arguments.commit,
                   "copy_tb_per_s": COPY_TB_PER_S, "launches": timing.LAUNCHES, "replays": timing.REPLAYS}  # fmt: skip
    for case in cases():
        name = f"batch {case[0]} keys {case[1]} page {case[2]} {case[3]}"
        if arguments.only not in name or time.monotonic() > deadline:
            continue
        row = measure(stof, case, arguments.kernel)
        rows.append(row)
        print(f"{name:60} {row.get('us', math.nan):9.2f} us  floor {row['floor_us']:9.2f}  "
              f"share {row.get('share_of_floor', math.nan):.3f}  error {row['error']:.1e}", flush=True)  # fmt: skip
        Path(arguments.out).write_text(json.dumps({"environment": environment, "rows": rows}, indent=1) + "\n")
    return any("failed" in row for row in rows)


if __name__ == "__main__":
    sys.exit(main())
