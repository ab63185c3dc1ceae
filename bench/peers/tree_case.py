# SPDX-License-Identifier: Apache-2.0
"""Draft trees to verify as tensors: queries packed, keys in pages of one pool or in rows, trees on the device; the masks of their
check; and STOF's call for it."""
from __future__ import annotations

import copy
import ctypes as c
import functools
import json
from dataclasses import replace

import torch
from step_case import StepCase, StofCall
from stof_library import c_library, dtype_of, tensor
from tree_problems import TreeProblem, words_of


class TreeCase(StepCase):
    """As a StepCase, where keys in rows are pages of whole items, in order. words: int32 [items, drafts, words of 32 bits], as
    stof_call.tree; seen: the same as bool [items, drafts, drafts]; first: int32 [items], the key of each item's first draft."""

    problem: TreeProblem

    def __init__(self, problem: TreeProblem, device: str = "cuda"):
        super().__init__(problem, device)
        if not problem.page:
            self.table = torch.arange(len(problem.items), device=device, dtype=torch.int32)[:, None]
        self.first = self.lengths_there - problem.drafts
        self.plant()

    def plant(self):
        """Trees as tensors."""
        drafts = self.problem.drafts
        words = [[words_of(row, drafts) for row in tree] for tree in self.problem.trees]
        self.words = torch.tensor(words, dtype=torch.int32, device=self.device)
        bits = torch.arange(drafts, device=self.device)
        self.seen = (self.words[:, :, bits // 32] >> (bits % 32) & 1).bool()

    @property
    def batch(self) -> int:
        return len(self.problem.items)

    def causal(self) -> TreeCase:
        """The same tensors with a chain for each tree, which a causal chunk is."""
        other = copy.copy(self)
        other.problem, other.kept = replace(self.problem, kind="chain"), None
        other.plant()
        return other

    def allowed_of(self, number: int):
        item = self.problem.items[number]
        allowed = torch.ones(item.queries, item.keys, dtype=torch.bool, device=self.device)
        allowed[:, item.keys - item.queries:] = self.seen[number]
        return allowed

    def allowed(self):
        """bool [items, drafts, keys that there is room for]"""
        found = torch.zeros(self.batch, self.problem.drafts, self.room, dtype=torch.bool, device=self.device)
        for number, keys in enumerate(self.lengths):
            found[number, :, :keys] = self.allowed_of(number)
        return found

    @functools.cached_property
    def padded_q(self):
        """q [items, heads, drafts, d], in a copy."""
        return self.q.unflatten(0, (self.batch, self.problem.drafts)).transpose(1, 2).contiguous()

    @functools.cached_property
    def in_rows(self):
        """k and v [items, kv_heads, keys that there is room for, d]: those of pages in a copy."""
        if not self.problem.page:
            return self.k, self.v
        pages = self.table.long()
        return tuple(pool[pages].transpose(1, 2).flatten(2, 3) for pool in (self.k, self.v))


class StofTrees(StofCall):
    """launch() writes into `out`, rows of packed queries, by lengths of the host. with_trees: else a causal chunk."""

    def __init__(self, library: c_library.Stof, case: TreeCase, out, with_trees: bool = True):
        self.library, self.case, self.out = library, case, out
        problem, dtype = case.problem, dtype_of(case.q)
        shape = (case.batch, problem.heads, problem.kv_heads, problem.drafts, case.room, problem.head_dim, dtype, False,
                 problem.drafts if with_trees else 0)  # fmt: skip
        mask = library.parse(problem.mask.text)
        self.plan = library.plan(mask, shape, case.device)
        library.library.stof_mask_destroy(mask)
        library.prepare(self.plan, problem.drafts, 1)
        said = json.loads(library.library.stof_plan_description(self.plan))
        self.description = (said.get("for_pages") if problem.page else None) or said
        numbers = lambda values: (c.c_int32 * len(values))(*values)
        self.lists = numbers(case.starts), numbers(case.lengths)  # the call has their addresses alone
        self.call = self.paged_call() if problem.page else self.rows_call()
        self.call.kv_lengths = c.addressof(self.lists[1])
        if with_trees:
            self.call.tree, self.call.tree_queries = case.words.data_ptr(), problem.drafts
            self.call.tree_batch_stride, self.call.tree_row_stride = case.words.stride()[:2]

    def paged_call(self):
        case = self.case
        packed = lambda rows: tensor(rows.transpose(0, 1)[None])
        return c_library.Call(struct_size=c.sizeof(c_library.Call), dtype=dtype_of(case.q), batch=case.batch, queries=case.problem.rows,
                              keys=case.room, q=packed(case.q), k=tensor(case.k), v=tensor(case.v), out=packed(self.out),
                              cu_q=c.addressof(self.lists[0]), page_table=case.table.data_ptr(), page_table_stride=case.table.stride(0),
                              page_size=case.problem.page, pages=case.k.shape[0])  # fmt: skip

    def rows_call(self):
        """Every item has as many queries, so that packed ones are padded ones."""
        case, drafts = self.case, self.case.problem.drafts
        padded = lambda rows: tensor(rows.unflatten(0, (case.batch, drafts)).transpose(1, 2))
        return c_library.Call(struct_size=c.sizeof(c_library.Call), dtype=dtype_of(case.q), batch=case.batch, queries=drafts,
                              keys=case.room, q=padded(case.q), k=tensor(case.k), v=tensor(case.v), out=padded(self.out))  # fmt: skip
