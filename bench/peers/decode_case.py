# SPDX-License-Identifier: Apache-2.0
"""A problem of bench/peers/decode.py: one query an item over keys in rows or in pages, its plan, and its check."""
from __future__ import annotations

import ctypes as c
import json
import math

import torch
from stof_library import c_library

COPY_TB_PER_S = 4.3  # what a copy kernel reaches on an H200
HEADS, KV_HEADS, HEAD_DIM = 32, 8, 128
WINDOW, SINK = 4096, 4
ALL, SINK_AND_WINDOW = "all", f"sink({SINK}) | window({WINDOW})"


def cases():
    """(batch, keys, page size or 0 for rows, mask)"""
    return [(batch, keys, page, mask) for mask in (ALL, SINK_AND_WINDOW) for batch in (1, 16, 64)
            for keys in (8192, 32768, 131072) for page in (0, 16, 64, 128)]  # fmt: skip


class Case:
    """q [batch, heads, 1, d]; k and v [pages, kv_heads, keys of a page, d], where an item without pages is one."""

    def __init__(self, batch, keys, page, mask):
        self.batch, self.keys, self.page, self.mask = batch, keys, page, mask
        torch.manual_seed(1)
        self.q = torch.randn(batch, HEADS, 1, HEAD_DIM, device="cuda", dtype=torch.float16)
        size = page or keys
        pages = batch * keys // size
        self.k, self.v = (torch.empty(pages, KV_HEADS, size, HEAD_DIM, device="cuda", dtype=torch.float16).normal_()
                          for _ in range(2))  # fmt: skip
        self.table = torch.randperm(pages, device="cuda").int().view(batch, -1) if page else None

    def allowed(self):
        """bool [keys]; the query stands at the last key."""
        key = torch.arange(self.keys, device="cuda")
        return torch.ones_like(key, dtype=torch.bool) if self.mask == ALL else (key < SINK) | (key >= self.keys - 1 - WINDOW)

    def rows(self, pool, item):
        """[kv_heads, keys, d] of one item."""
        if not self.page:
            return pool[item]
        return pool[self.table[item].long()].transpose(0, 1).reshape(KV_HEADS, self.keys, HEAD_DIM)

    def expected(self):
        """{item: output [heads, 1, d] in fp32} of the first, the last and a middle one."""
        found = {}
        for item in sorted({0, self.batch // 2, self.batch - 1}):
            q = self.q[item].float().view(KV_HEADS, -1, HEAD_DIM)
            scores = q @ self.rows(self.k, item).float().transpose(1, 2) / math.sqrt(HEAD_DIM)
            scores.masked_fill_(~self.allowed(), -math.inf)
            found[item] = (torch.softmax(scores, -1) @ self.rows(self.v, item).float()).view(HEADS, 1, HEAD_DIM)
        return found

    def floor_us(self):
        """The bytes of the allowed keys and values, of q and of the output, at the rate of a copy."""
        touched = int(self.allowed().sum().item()) * self.batch * KV_HEADS * 2 * HEAD_DIM * 2
        return (touched + 4 * self.q.numel()) / COPY_TB_PER_S / 1e6


class StofPlan:
    """launch(i) writes and gives the output, whatever i: there is one set of keys, larger than the L2 in all problems but
    that of one item and 8192 keys."""

    def __init__(self, library: c_library.Stof, case: Case):
        self.library, self.case = library, case
        self.out = torch.full_like(case.q, math.nan)
        mask = library.parse(case.mask)
        shape = (case.batch, HEADS, KV_HEADS, 1, case.keys, HEAD_DIM, c_library.F16)
        self.plan = library.plan(mask, shape, "cuda", "decode_attention")
        library.library.stof_mask_destroy(mask)
        self.description = json.loads(library.library.stof_plan_description(self.plan))
        tensor = lambda x: c_library.Tensor(x.data_ptr(), *x.stride()[:3])
        self.call = c_library.Call(struct_size=c.sizeof(c_library.Call), dtype=c_library.F16, batch=case.batch, queries=1,
                                   keys=case.keys, q=tensor(case.q), k=tensor(case.k), v=tensor(case.v),
                                   out=tensor(self.out))  # fmt: skip
        if case.page:
            self.call.page_table, self.call.page_table_stride = case.table.data_ptr(), case.table.stride(0)
            self.call.page_size, self.call.pages = case.page, case.k.shape[0]

    def launch(self, i: int) -> torch.Tensor:
        self.call.stream = torch.cuda.current_stream().cuda_stream
        self.library.run(self.plan, self.call)
        return self.out

    def close(self):
        self.library.library.stof_plan_destroy(self.plan)
