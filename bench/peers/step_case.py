# SPDX-License-Identifier: Apache-2.0
"""A step of a server as tensors: queries packed, keys in pages of one pool; its check, item by item; and STOF's call for it."""
from __future__ import annotations

import copy
import ctypes as c
import itertools
import json
import math
from dataclasses import replace

import torch
from decode_case import BOUNDS, CHECK_BYTES, DTYPES
from step_problems import StepProblem
from stof_library import c_library, dtype_of, tensor
from timing import WrongOutput, errors, judged


class StepCase:
    """q [rows, heads, d], item after item; k and v [pages, kv_heads, keys of a page, d]; table [items, pages of the longest],
    in an order by chance, 0 behind an item's last page. device: also "cpu", for tests."""

    def __init__(self, problem: StepProblem, device: str = "cuda"):
        self.problem, self.device = problem, device
        dtype = DTYPES[problem.dtype]
        torch.manual_seed(1)
        self.q = torch.randn(problem.rows, problem.heads, problem.head_dim, device=device, dtype=dtype)
        pool = (sum(problem.pages), problem.kv_heads, problem.page_keys, problem.head_dim)
        self.k, self.v = (torch.empty(pool, device=device, dtype=dtype).normal_() for _ in range(2))
        order = torch.randperm(pool[0], device=device).int()
        self.table = torch.zeros(len(problem.items), max(problem.pages), device=device, dtype=torch.int32)
        for row, own in zip(self.table, order.split(list(problem.pages))):
            row[:len(own)] = own
        self.count()
        self.kept = None  # of expected()

    def count(self):
        """Offsets of queries and numbers of keys, on the host and on the device."""
        there = lambda values: torch.tensor(values, dtype=torch.int32, device=self.device)
        self.starts = [0, *itertools.accumulate(item.queries for item in self.problem.items)]
        self.lengths = [item.keys for item in self.problem.items]
        self.starts_there, self.lengths_there = there(self.starts), there(self.lengths)

    @property
    def shape(self):
        """Of the output, packed."""
        return tuple(self.q.shape)

    @property
    def room(self) -> int:
        """Keys of the page table."""
        return self.table.shape[1] * self.problem.page_keys

    def of_items(self, begin: int, end: int) -> StepCase:
        """Some items where they lie, as a case of its own that is planned for its own longest."""
        other = copy.copy(self)
        other.problem = replace(self.problem, items=self.problem.items[begin:end], planned=0)
        other.q = self.q[self.starts[begin]:self.starts[end]]
        other.table, other.kept = self.table[begin:end], None
        other.count()
        return other

    def parts(self) -> list[tuple[StepCase, slice]]:
        """Items that decode, then chunks, each with its rows of the output, where there are any."""
        middle, count = self.problem.decoding, len(self.problem.items)
        return [(self.of_items(begin, end), slice(self.starts[begin], self.starts[end]))
                for begin, end in ((0, middle), (middle, count)) if begin < end]  # fmt: skip

    def of_each(self, out):
        """[heads, queries, d] of each item, from packed rows or from [items, heads, longest, d]."""
        if out.dim() == 4:
            return [rows[:, :item.queries] for rows, item in zip(out, self.problem.items, strict=True)]
        return [out[begin:end].transpose(0, 1) for begin, end in itertools.pairwise(self.starts)]

    def keys_of(self, pool, item: int):
        """[kv_heads, keys, d] in fp32"""
        pages = self.table[item, :self.problem.pages[item]].long()
        return pool[pages].transpose(0, 1).flatten(1, 2)[:, :self.lengths[item]].float()

    def expected(self):
        """Output [heads, queries, d] of each item in fp32; made once."""
        if self.kept is None:
            self.kept = [self.expected_of(number) for number in range(len(self.lengths))]
        return self.kept

    def allowed_of(self, number: int):
        """bool [queries, keys] of an item"""
        item = self.problem.items[number]
        return self.problem.mask.dense(item.keys, device=self.device, queries=item.queries)

    def expected_of(self, number: int):
        """So many queries at a time as CHECK_BYTES have room for."""
        problem, item = self.problem, self.problem.items[number]
        q = self.of_each(self.q)[number].float().unflatten(0, (problem.kv_heads, -1))
        keys, values = (self.keys_of(pool, number)[:, None] for pool in (self.k, self.v))
        allowed = self.allowed_of(number)
        step, parts = max(1, CHECK_BYTES // (4 * problem.heads * item.keys)), []
        for begin in range(0, item.queries, step):
            scores = q[:, :, begin:begin + step] @ keys.transpose(2, 3) / math.sqrt(problem.head_dim)
            scores.masked_fill_(~allowed[begin:begin + step], -math.inf)
            parts.append(torch.softmax(scores, -1) @ values)
        return torch.cat(parts, 2).flatten(0, 1)

    def check(self, out, expected, dtype: str) -> dict:
        """The largest relative errors of an item and of a row. A WrongOutput names the item that is past the bounds, or that was
        not written."""
        worst = (0.0, 0.0)
        for got, want, item in zip(self.of_each(out), expected, self.problem.items, strict=True):
            try:
                if not torch.isfinite(got).all():
                    raise WrongOutput("output holds NaN or infinity")
                worst = tuple(map(max, worst, judged(*errors(got.float(), want), BOUNDS[dtype])))
            except WrongOutput as wrong:
                raise WrongOutput(f"item of {item.queries} queries over {item.keys} keys: {wrong}") from None
        return dict(zip(("error", "worst_row"), worst))


class StofCall:
    """Has a `case`, a `library`, a `plan` of its own and a `call`."""

    def launch(self):
        if self.case.device != "cpu":
            self.call.stream = torch.cuda.current_stream().cuda_stream
        self.library.run(self.plan, self.call)

    def close(self):
        self.library.library.stof_plan_destroy(self.plan)


class StofStep(StofCall):
    """launch() writes into `out`, rows of packed queries. listed: where the lists of lengths are, "host" or "device"."""

    def __init__(self, library: c_library.Stof, case: StepCase, out, listed: str = "host"):
        self.library, self.case, self.out = library, case, out
        problem, dtype = case.problem, dtype_of(case.q)
        mask, queries = library.parse(problem.mask.text), problem.planned_queries
        shape = (len(problem.items), problem.heads, problem.kv_heads, queries, case.room, problem.head_dim, dtype)
        self.plan = library.plan(mask, shape, case.device)
        library.library.stof_mask_destroy(mask)
        decoded = max((item.queries for item in problem.items if item.decodes), default=1)
        for prepared in (decoded, queries):
            library.prepare(self.plan, prepared, 1)
        said = json.loads(library.library.stof_plan_description(self.plan))
        self.description = said.get("for_pages") or said
        packed = lambda rows: tensor(rows.transpose(0, 1)[None])
        self.call = c_library.Call(struct_size=c.sizeof(c_library.Call), dtype=dtype, batch=len(problem.items), queries=problem.rows,
                                   keys=case.room, q=packed(case.q), k=tensor(case.k), v=tensor(case.v), out=packed(out),
                                   page_table=case.table.data_ptr(), page_table_stride=case.table.stride(0),
                                   page_size=problem.page, pages=case.k.shape[0])  # fmt: skip
        if listed == "device":
            self.call.device_cu_q, self.call.device_kv_lengths = case.starts_there.data_ptr(), case.lengths_there.data_ptr()
        else:
            numbers = lambda values: (c.c_int32 * len(values))(*values)
            self.lists = numbers(case.starts), numbers(case.lengths)  # the call has their addresses alone
            self.call.cu_q, self.call.kv_lengths = map(c.addressof, self.lists)
