#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draft trees as bench/peers/trees.py times them: problems are the same again, words say which drafts see each other; what they
count is what masks allow; peers get masks that say the same, and STOF's calls, on the CPU, are the definition.

usage: trees_test.py [LIBSTOF.SO]  (what needs it, or torch, is skipped without)
"""

import sys
import unittest
from dataclasses import replace
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "bench"), str(ROOT / "bench/peers")]
try:
    import torch
except ImportError:
    torch = None
with mock.patch.dict(sys.modules, {} if torch else {name: mock.MagicMock() for name in ("torch", "torch.nn", "torch.nn.functional")}):
    import masks
    import providers
    import timing
    import tree_case
    import tree_parts
    import tree_problems
    import tree_providers
    import trees
    from step_problems import Item
    from tree_problems import TreeProblem

LIBRARY = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None


def drawn(count=72, seed=1):
    return tree_problems.drawn_trees(seed, count)


def small(page=16, drafts=5, kind="random", **named):
    """Three items of several lengths, one of drafts alone."""
    items = tuple(Item(drafts, keys) for keys in (drafts, drafts + 41, drafts + 30))
    return TreeProblem(items, page, masks.causal(), heads=4, kv_heads=2, head_dim=16, kind=kind, **named)


class Problems(unittest.TestCase):
    def test_a_seed_draws_the_same_again(self):
        names = [problem.name for problem in drawn()]
        self.assertEqual(names, [problem.name for problem in drawn()])
        self.assertEqual(names[:10], [problem.name for problem in drawn(10)])
        self.assertNotEqual(names, [problem.name for problem in drawn(seed=2)])
        self.assertEqual(len(set(names)), len(names))
        self.assertEqual([problem.trees for problem in drawn(5)], [problem.trees for problem in drawn(5)])

    def test_items_have_drafts_and_room(self):
        for problem in [*drawn(200), *tree_problems.fixed_trees()]:
            self.assertTrue(tree_problems.fits(problem), problem.name)
            most = problem.longest.keys
            for item, pages in zip(problem.items, problem.pages, strict=True):
                self.assertEqual(item.queries, problem.drafts)
                self.assertTrue(max(problem.drafts, most // 2) <= item.keys <= most, problem.name)
                self.assertTrue(0 <= pages * problem.page_keys - item.keys, problem.name)
            if not problem.page:
                self.assertEqual(set(problem.pages), {1})

    def test_every_kind_is_drawn(self):
        found = drawn(300)
        self.assertEqual({problem.kind for problem in found}, set(tree_problems.KINDS))
        self.assertEqual({problem.page for problem in found}, {0, 16, 64, 128})
        self.assertEqual({problem.dtype for problem in found}, {"f16", "bf16"})
        self.assertEqual({(problem.heads, problem.kv_heads) for problem in found}, set(tree_problems.HEADS))
        self.assertGreater(sum(problem.drafts > 32 for problem in found), 50)

    def test_chosen_ones_differ(self):
        found = tree_problems.fixed_trees()
        self.assertEqual(len({problem.name for problem in found}), 26)
        self.assertEqual({problem.drafts for problem in found}, {4, 8, 16, 24, 32, 64, 128})
        self.assertEqual({problem.kind for problem in found}, set(tree_problems.KINDS))
        self.assertEqual({problem.page for problem in found}, {0, 16, 64})

    def test_words_say_which_drafts_see_each_other(self):
        parents = (-1, 0, 0, 1, 3, 2)
        self.assertEqual(tree_problems.seen_by(parents), [0b1, 0b11, 0b101, 0b1011, 0b11011, 0b100101])
        row = 1 << 31 | 1 << 32 | 1
        self.assertEqual(tree_problems.words_of(row, 33), [1 - 2**31, 1])
        self.assertEqual(tree_problems.words_of(2**32 - 1, 32), [-1])
        self.assertEqual(tree_problems.words_of(5, 3), [5])

    def test_kinds_are_what_they_say(self):
        draw = tree_problems.random.Random(3)
        self.assertEqual(tree_problems.parents_of("chain", 4, draw), (-1, 0, 1, 2))
        self.assertEqual(tree_problems.parents_of("wide", 4, draw), (-1, 0, 0, 0))
        parents = tree_problems.parents_of("random", 200, draw)
        self.assertEqual(parents[0], -1)
        self.assertTrue(all(0 <= parent < i for i, parent in enumerate(parents) if i))
        self.assertGreater(len(set(parents)), 50)
        trees_of = small(drafts=40).trees
        self.assertNotEqual(trees_of[0], trees_of[1])  # each item's own

    def test_pairs_are_those_that_are_allowed(self):
        chain = small(kind="chain")
        causal = sum(keys - 5 + i + 1 for keys in (5, 46, 35) for i in range(5))
        self.assertEqual(chain.pairs(), causal)
        self.assertEqual(small(kind="wide").pairs(), causal - 3 * (15 - 9))
        self.assertEqual(chain.bytes(), 2 * 16 * (2 * 2 * 86 + 2 * 4 * 15))


@unittest.skipUnless(torch, "there is no torch")
class Cases(unittest.TestCase):
    def test_words_and_masks_say_the_same(self):
        case = tree_case.TreeCase(small(drafts=70), "cpu")
        self.assertEqual(list(case.words.shape), [3, 70, 3])
        allowed = case.allowed()
        for number, tree in enumerate(case.problem.trees):
            first = case.lengths[number] - 70
            self.assertTrue(allowed[number, :, :first].all())
            self.assertFalse(allowed[number, :, first + 70:].any())
            for i, row in enumerate(tree):
                self.assertEqual([bool(row >> j & 1) for j in range(70)], allowed[number, i, first:first + 70].tolist())
        self.assertEqual(case.problem.pairs(), int(allowed.sum()))

    def test_a_chain_is_causal(self):
        case = tree_case.TreeCase(small(), "cpu").causal()
        for number, item in enumerate(case.problem.items):
            self.assertTrue(torch.equal(case.allowed_of(number), masks.causal().dense(item.keys, "cpu", queries=5)))

    def test_pages_and_rows_hold_the_same(self):
        for page in (16, 0):
            case = tree_case.TreeCase(small(page), "cpu")
            k, v = case.in_rows
            for number, keys in enumerate(case.lengths):
                for rows, pool in ((k, case.k), (v, case.v)):
                    self.assertTrue(torch.equal(rows[number, :, :keys].float(), case.keys_of(pool, number)))

    def test_expected_is_the_definition(self):
        case = tree_case.TreeCase(small(), "cpu")
        k, v = (case.keys_of(pool, 1)[0] for pool in (case.k, case.v))
        keys = [*range(41), *(41 + j for j in range(5) if case.problem.trees[1][4] >> j & 1)]
        want = torch.softmax(case.q[9, 1].float() @ k[keys].T / 4, 0) @ v[keys]
        self.assertTrue(torch.allclose(case.expected()[1][1, 4], want, atol=1e-5))
        with self.assertRaisesRegex(timing.WrongOutput, "^item of 5 queries over 5 keys: relative"):
            case.check(torch.cat([one.transpose(0, 1) for one in case.causal().expected()]).half(), case.expected(), "f16")

    def test_masks_of_peers_are_the_definition(self):
        for page, drafts in ((16, 5), (0, 37)):
            case = tree_case.TreeCase(small(page, drafts), "cpu")
            for name, provider in (("sdpa", tree_providers.sdpa), ("stacked", tree_providers.sdpa_stacked)):
                with self.subTest(name, page=page):
                    contender = provider("MATH", case)
                    case.check(contender.output(contender.launch(0)), case.expected(), "f16")

    def test_lists_of_blocks_hold_every_allowed_pair(self):
        case = tree_case.TreeCase(small(16, 5), "cpu")
        partial_count, partial, full_count, full = tree_providers.lists_of(case, (64, 16))
        self.assertEqual((partial_count.flatten().tolist(), full_count.flatten().tolist()), ([1, 1, 2], [0, 2, 1]))
        self.assertEqual(partial[2, 0, 0, :2].tolist(), [1, 2])
        self.assertEqual(full[1, 0, 0, :2].tolist(), [0, 1])

    def test_pages_of_flashinfer_hold_the_keys(self):
        for page in (16, 0):
            case = tree_case.TreeCase(small(page, 70), "cpu")
            (begins, pages), (k, _), size = tree_providers.flashinfer_pages(case)
            for number, keys in enumerate(case.lengths):
                own = k[pages[begins[number]:begins[number + 1]].long()]
                self.assertTrue(0 <= len(own) * size - keys < size)
                self.assertTrue(torch.equal(own.transpose(0, 1).flatten(1, 2)[:, :keys].float(), case.keys_of(case.k, number)))

    def test_parts_are_the_whole(self):
        """Keys before the drafts without a mask, the drafts' own with it, put together."""
        items = (Item(5, 21), Item(5, 46), Item(5, 37))
        for page in (16, 0):
            case = tree_case.TreeCase(replace(small(page), items=items), "cpu")
            k, v = tree_parts.draft_keys(case)
            outs, lses = ([], []), ([], [])
            for number, keys in enumerate(case.lengths):
                q = case.of_each(case.q)[number].float().unflatten(0, (2, 2))
                own = [rows[number * 5:number * 5 + 5].transpose(0, 1).float() for rows in (k, v)]
                before = [case.keys_of(pool, number)[:, :keys - 5] for pool in (case.k, case.v)]
                for part, (part_k, part_v), hidden in ((0, before, None), (1, own, ~case.seen[number])):
                    scores = q @ part_k[:, None].transpose(2, 3) / 4
                    scores = scores if hidden is None else scores.masked_fill(hidden, -torch.inf)
                    outs[part].append((torch.softmax(scores, -1) @ part_v[:, None]).flatten(0, 1).transpose(0, 1).half())
                    lses[part].append(torch.logsumexp(scores, -1).flatten(0, 1))
            parts = (torch.cat(outs[0]), torch.cat(lses[0], 1), torch.cat(outs[1]), torch.cat(lses[1], 1))
            case.check(tree_parts.merge(*parts), case.expected(), "f16")
        with self.assertRaisesRegex(providers.NotTaken, "^an item without keys in front"):
            tree_parts.has_keys_before(tree_case.TreeCase(small(), "cpu"))

    def test_pages_before_drafts_end_there(self):
        case = tree_case.TreeCase(replace(small(), items=(Item(5, 21), Item(5, 38))), "cpu")
        begins, pages, rest = tree_parts.pages_before(case)
        self.assertEqual((begins.tolist(), rest.tolist()), ([0, 1, 4], [16, 1]))
        self.assertEqual(pages.tolist(), [*case.table[0, :1].tolist(), *case.table[1, :3].tolist()])

    def test_who_has_no_path_says_why(self):
        case = tree_case.TreeCase(small(0), "cpu")
        with self.assertRaisesRegex(providers.NotTaken, "^keys in rows$"):
            tree_providers.flash4_pages(None, case)
        with mock.patch.object(tree_providers, "MOST_MASK_BYTES", 100), self.assertRaisesRegex(providers.NotTaken, "^a mask of more than"):
            tree_providers.sdpa("MATH", case)
        with self.assertRaisesRegex(providers.NotTaken, "^tiles of other rows"):
            tree_providers.flash4_for(None, False, (128, 64), case)

    @unittest.skipUnless(LIBRARY, "the library is not named")
    def test_calls_of_stof_are_right(self):
        library, plans = trees.load(LIBRARY), []
        for page, drafts in ((16, 5), (16, 70), (0, 5), (0, 37)):
            case = tree_case.TreeCase(small(page, drafts), "cpu")
            for with_trees, of in ((True, case), (False, case.causal())):
                with self.subTest(page=page, drafts=drafts, with_trees=with_trees):
                    out = trees.stof(with_trees, library, plans, of).launch(0)
                    of.check(out, of.expected(), "f16")
        for plan in plans:
            plan.close()


class Asked(unittest.TestCase):
    def test_rows_that_are_there_are_not_wanted_again(self):
        problems = [small(), small(0), replace(small(), kind="wide")]
        results = mock.Mock(has=lambda name: name == problems[2].name)
        words = ["--library", "a.so", "--out", "b.json"]
        places = lambda *more: [place for place, _ in trees.wanted(trees.options([*words, *more]), problems, results)]
        self.assertEqual(places(), [0, 1])
        self.assertEqual(places("--only", "rows"), [1])
        self.assertEqual(places("--part", "2/2"), [1])


if __name__ == "__main__":
    unittest.main()
