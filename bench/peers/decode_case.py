# SPDX-License-Identifier: Apache-2.0
"""A problem of bench/peers/decode.py: queries of an item's last positions over keys in rows or in pages, few or a chunk of a
prompt; its plan, and its check."""
from __future__ import annotations

import copy
import ctypes as c
import json
import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import masks
import torch
from stof_library import c_library, dtype_of, tensor

sys.path.append(str(Path(__file__).resolve().parents[1]))
from gpu_rates import SHEET_TFLOP_PER_S, copy_rate  # noqa: E402

MOST_QUERIES = 16  # an item, of decode_attention; more are a chunk
CHECK_BYTES = 2**30  # of scores in fp32, of which the check has a few copies at a time
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
BOUNDS = {"f16": 2e-3, "bf16": 1e-2}  # of the relative error


@dataclass
class Problem:
    """The queries are those of the last positions. page: keys of one, or 0 where keys lie in rows. family: of masks, where
    the problem was drawn."""

    batch: int
    keys: int
    page: int
    mask: masks.MaskCase
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    dtype: str = "f16"
    queries: int = 1
    family: str | None = None

    @property
    def name(self) -> str:
        kept = f"pages of {self.page}" if self.page else "rows"
        shape = f"heads {self.heads}:{self.kv_heads} d {self.head_dim} {self.dtype} " if self.family else ""
        queries = f"queries {self.queries} " if self.family or self.queries > 1 else ""
        return f"batch {self.batch} {shape}{queries}keys {self.keys} {kept} {self.mask.text}"

    @property
    def is_chunk(self) -> bool:
        """Of a prompt: more queries than decode_attention takes."""
        return self.queries > MOST_QUERIES

    def facts(self) -> dict:
        """As the row of results has them."""
        found = {name: getattr(self, name) for name in ("batch", "heads", "kv_heads", "head_dim", "dtype", "queries", "keys")}
        found |= {"page_size": self.page, "mask": self.mask.text}
        return found | ({"family": self.family} if self.family else {})

    def bytes_of(self, keys: int) -> int:
        """So many keys and values of each item, once for each key head, with q and the output."""
        kept = 2 * self.kv_heads * keys
        return 2 * self.batch * self.head_dim * (kept + 2 * self.heads * self.queries)

    def flops_of(self, pairs: int) -> int:
        """Of so many pairs of a query and a key of one item and head."""
        return 4 * self.batch * self.heads * pairs * self.head_dim


def fixed_problems() -> list[Problem]:
    return [Problem(batch, keys, page, mask) for mask in (masks.everything(), masks.sink_or_window(4, 4096))
            for batch in (1, 16, 64) for keys in (8192, 32768, 131072) for page in (0, 16, 64, 128)]  # fmt: skip


class Case:
    """q [batch, heads, queries, d]; k and v [pages, kv_heads, keys of a page, d], where an item without pages is one. What
    providers.py asks of a TensorSets it can ask of a case in rows."""

    softcap = None

    def __init__(self, problem: Problem):
        self.problem, self.mask, self.page, self.keys = problem, problem.mask, problem.page, problem.keys
        self.batch, self.queries, self.kv_heads, self.head_dim = (problem.batch, problem.queries, problem.kv_heads,
                                                                  problem.head_dim)  # fmt: skip
        dtype, size = DTYPES[problem.dtype], problem.page or problem.keys
        own = -(-problem.keys // size)  # of an item; its last page may hold fewer keys than others
        torch.manual_seed(1)
        self.shape = (problem.batch, problem.heads, problem.queries, problem.head_dim)
        self.q = torch.randn(self.shape, device="cuda", dtype=dtype)
        self.k, self.v = (torch.empty(problem.batch * own, self.kv_heads, size, self.head_dim, device="cuda", dtype=dtype).normal_()
                          for _ in range(2))  # fmt: skip
        self.table = torch.randperm(problem.batch * own, device="cuda").int().view(problem.batch, own) if problem.page else None
        self.dense = problem.mask.dense(problem.keys, queries=problem.queries)

    @property
    def first_position(self) -> int:
        return self.keys - self.queries

    @property
    def grouped(self) -> bool:
        return self.kv_heads != self.shape[1]

    def __getitem__(self, i: int):
        return self.q, self.k, self.v

    def bshd(self, i: int):
        """Where they lie."""
        return tuple(t.transpose(1, 2) for t in self[i])

    def rows(self, pool, item):
        """[kv_heads, keys, d] of one item."""
        if not self.page:
            return pool[item]
        return pool[self.table[item].long()].transpose(0, 1).reshape(self.kv_heads, -1, self.head_dim)[:, :self.keys]

    def in_rows(self) -> Case:
        """The same with its keys in rows, in a copy."""
        other = copy.copy(self)
        other.problem, other.page, other.table = replace(self.problem, page=0), 0, None
        other.k, other.v = (torch.stack([self.rows(pool, item) for item in range(self.batch)]) for pool in (self.k, self.v))
        return other

    def expected(self):
        """{item: output [heads, queries, d] in fp32} of the first, the last and a middle one."""
        found = {}
        for item in sorted({0, self.batch // 2, self.batch - 1}):
            q = self.q[item].view(self.kv_heads, -1, self.queries, self.head_dim)
            keys, values = self.rows(self.k, item), self.rows(self.v, item)
            found[item] = torch.cat([self.expected_of(q[h].float(), keys[h].float(), values[h].float())
                                     for h in range(self.kv_heads)])  # fmt: skip
        return found

    def expected_of(self, q, k, v):
        """[heads of the key head, queries, d], so many queries at a time as CHECK_BYTES have room for."""
        step = max(1, CHECK_BYTES // (4 * q.shape[0] * self.keys))
        parts = []
        for begin in range(0, self.queries, step):
            scores = q[:, begin:begin + step] @ k.T / math.sqrt(self.head_dim)
            scores.masked_fill_(~self.dense[begin:begin + step], -math.inf)
            parts.append(torch.softmax(scores, -1) @ v)
        return torch.cat(parts, 1)

    def bytes(self) -> int:
        """Of the keys and values that any query of their item may see, of q and of the output."""
        return self.problem.bytes_of(int(self.dense.any(0).sum().item()))

    def floors(self) -> dict[str, float]:
        """us that the memory must take, and of a chunk the tensor cores for the pairs that are allowed: few queries have
        little for them."""
        found = {"memory": self.bytes() / copy_rate(torch.cuda.get_device_name()) / 1e6}
        if self.problem.is_chunk:
            found["tensor cores"] = self.problem.flops_of(int(self.dense.sum().item())) / SHEET_TFLOP_PER_S / 1e6
        return found

    def run_of_keys(self) -> tuple[int, bool] | None:
        """The first key that is seen, and whether queries see up to their own position in place of all from there on; None
        where they see other keys than that."""
        begin = int(self.dense.any(0).int().argmax())
        if self.dense[:, begin:].all():
            return begin, False
        causal = masks.causal().dense(self.keys, device=self.dense.device, queries=self.queries)
        return (begin, True) if torch.equal(self.dense[:, begin:], causal[:, begin:]) else None


class StofPlan:
    """launch(i) writes and gives the output, whatever i: there is one set of keys."""

    def __init__(self, library: c_library.Stof, case: Case, kernel=None):
        self.library, self.case = library, case
        self.out = torch.full_like(case.q, math.nan)
        mask, dtype = library.parse(case.mask.text), dtype_of(case.q)
        # Of pages whole ones; how many keys an item has is then its length.
        keys = case.keys if not case.page else -(-case.keys // case.page) * case.page
        shape = (case.batch, case.shape[1], case.kv_heads, case.queries, keys, case.head_dim, dtype)
        self.plan = library.plan(mask, shape, "cuda", kernel)
        library.library.stof_mask_destroy(mask)
        if keys != case.keys:
            library.prepare(self.plan, case.queries, case.keys)
        self.description = json.loads(library.library.stof_plan_description(self.plan))
        if case.page and self.description.get("for_pages"):
            self.description = self.description["for_pages"]
        self.call = c_library.Call(struct_size=c.sizeof(c_library.Call), dtype=dtype, batch=case.batch, queries=case.queries,
                                   keys=keys, q=tensor(case.q), k=tensor(case.k), v=tensor(case.v),
                                   out=tensor(self.out))  # fmt: skip
        if case.page:
            self.call.page_table, self.call.page_table_stride = case.table.data_ptr(), case.table.stride(0)
            self.call.page_size, self.call.pages = case.page, case.k.shape[0]
        if keys != case.keys:
            self.lengths = (c.c_int32 * case.batch)(*[case.keys] * case.batch)
            self.call.kv_lengths = c.cast(self.lengths, c.c_void_p)

    def launch(self, i: int) -> torch.Tensor:
        self.call.stream = torch.cuda.current_stream().cuda_stream
        self.library.run(self.plan, self.call)
        return self.out

    def close(self):
        self.library.library.stof_plan_destroy(self.plan)
