#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Steps of a server as bench/peers/steps.py times them: problems are the same again and have room for what they say; what they
count is what masks allow; STOF's calls, on the CPU, are the definition; a peer that leaves the GPU unusable is not asked again.

usage: steps_test.py [LIBSTOF.SO]  (what needs it, or torch, is skipped without)
"""

import sys
import unittest
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
    import fresh_inputs
    import masks
    import providers
    import step_case
    import step_problems
    import steps
    from step_problems import Item, StepProblem

LIBRARY = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None


def drawn(count=72, seed=1):
    return step_problems.drawn_steps(seed, count)


class Problems(unittest.TestCase):
    def test_a_seed_draws_the_same_again(self):
        names = [problem.name for problem in drawn()]
        self.assertEqual(names, [problem.name for problem in drawn()])
        self.assertEqual(names[:10], [problem.name for problem in drawn(10)])
        self.assertNotEqual(names, [problem.name for problem in drawn(seed=2)])
        self.assertEqual(len(set(names)), len(names))

    def test_items_have_rows_and_room(self):
        for problem in [*drawn(300), *step_problems.fixed_steps()]:
            self.assertTrue(step_problems.fits(problem), problem.name)
            self.assertTrue(problem.items)
            for item, pages in zip(problem.items, problem.pages, strict=True):
                self.assertTrue(1 <= item.queries <= item.keys <= step_problems.MOST_KEYS, problem.name)
                self.assertTrue(0 <= pages * problem.page - item.keys < problem.page)
            decodes = [item.decodes for item in problem.items]
            self.assertEqual(decodes, sorted(decodes, reverse=True))  # those that decode come first
            self.assertGreaterEqual(problem.planned_queries, problem.longest.queries)
            self.assertEqual(problem.rows, sum(item.queries for item in problem.items))

    def test_every_kind_of_step_is_drawn(self):
        found = drawn(300)
        self.assertEqual({problem.family for problem in found}, {"causal", "sliding"})
        self.assertEqual({problem.page for problem in found}, {16, 64, 128})
        self.assertEqual({problem.dtype for problem in found}, {"f16", "bf16"})
        self.assertEqual({(problem.heads, problem.kv_heads) for problem in found}, set(step_problems.HEADS))
        kinds = [(problem.decoding > 0, len(problem.items) > problem.decoding) for problem in found]
        self.assertEqual(set(kinds), {(True, True), (True, False), (False, True)})
        self.assertGreater(kinds.count((True, True)), 150)
        several = [problem for problem in found if any(1 < item.queries <= 16 for item in problem.items)]
        self.assertTrue(30 < len(several) < 150, len(several))

    def test_chosen_ones_are_in_pages_of_both_sizes_over_the_same_keys(self):
        found = step_problems.fixed_steps()
        self.assertEqual(len({problem.name for problem in found}), 22)
        for first, second in zip(found[::2], found[1::2], strict=True):
            self.assertEqual((first.page, second.page), (64, 16))
            self.assertEqual(first.items, second.items)
        usual = found[0]
        self.assertEqual((usual.decoding, len(usual.items), usual.items[-1]), (32, 33, Item(512, 8192)))
        self.assertTrue(all(2048 <= item.keys <= 8192 for item in usual.items))
        self.assertEqual(sum(problem.window() == 4096 for problem in found), 4)
        alone = next(problem for problem in found if problem.planned)
        self.assertEqual((alone.decoding, len(alone.items), alone.planned_queries), (256, 256, 512))

    def test_pairs_and_keys_are_those_that_masks_allow(self):
        items = (Item(1, 1), Item(1, 9), Item(3, 12), Item(5, 5), Item(9, 20))
        for mask in (masks.causal(), masks.sliding(4), masks.sliding(100)):
            problem = StepProblem(items, 16, mask, heads=6, kv_heads=3, head_dim=8)
            pairs = [(number, query, key) for number, item in enumerate(items) for query in range(item.queries)
                     for key in range(item.keys) if mask.allows(item.keys - item.queries + query, key)]  # fmt: skip
            self.assertEqual(problem.pairs(), len(pairs), mask.text)
            self.assertEqual(problem.keys_seen(), len({(number, key) for number, _, key in pairs}), mask.text)
            self.assertEqual(problem.flops(), 4 * 6 * 8 * len(pairs))
            self.assertEqual(problem.bytes(), 2 * 8 * (2 * 3 * problem.keys_seen() + 2 * 6 * 19))


@unittest.skipUnless(torch, "there is no torch")
class Checked(unittest.TestCase):
    """Packed rows, and rows padded to the longest item."""

    def setUp(self):
        self.problem = StepProblem((Item(1, 40), Item(2, 9), Item(17, 33)), 16, masks.causal(), heads=4, kv_heads=2, head_dim=16)
        self.case = step_case.StepCase(self.problem, "cpu")
        self.expected = self.case.expected()
        self.out = torch.cat([want.transpose(0, 1) for want in self.expected]).half()

    def test_a_right_output_passes_either_way(self):
        found = self.case.check(self.out, self.expected, "f16")
        self.assertTrue(0 < found["error"] < 1e-3 and 0 < found["worst_row"] < 1e-3, found)
        padded = torch.full((3, 4, 17, 16), float("nan")).half()
        for rows, want in zip(padded, self.expected):
            rows[:, :want.shape[1]] = want
        self.assertEqual(self.case.check(padded, self.expected, "f16"), found)

    def test_the_item_that_is_wrong_is_named(self):
        self.out[1] *= 1.01
        with self.assertRaisesRegex(step_case.WrongOutput, "^item of 2 queries over 9 keys: relative error "):
            self.case.check(self.out, self.expected, "f16")

    def test_every_row_has_to_be_written(self):
        self.out[-1, 3, 15] = float("nan")
        with self.assertRaisesRegex(step_case.WrongOutput, "^item of 17 queries over 33 keys: output holds NaN"):
            self.case.check(self.out, self.expected, "f16")

    def test_expected_is_the_definition(self):
        k, v = (self.case.keys_of(pool, 1)[0] for pool in (self.case.k, self.case.v))
        for query, position in ((0, 7), (1, 8)):
            scores = self.case.q[1 + query, 1].float() @ k[:position + 1].T / 4
            want = torch.softmax(scores, 0) @ v[:position + 1]
            self.assertTrue(torch.allclose(self.expected[1][1, query], want, atol=1e-5))

    def test_parts_are_the_items_where_they_lie(self):
        (decoding, first), (chunks, second) = self.case.parts()
        self.assertEqual((first, second), (slice(0, 3), slice(3, 20)))
        self.assertEqual((decoding.starts, chunks.starts, chunks.lengths), ([0, 1, 3], [0, 17], [33]))
        self.assertEqual(chunks.q.data_ptr(), self.case.q[3:].data_ptr())
        self.assertTrue(torch.equal(chunks.expected()[0], self.expected[2]))

    @unittest.skipUnless(LIBRARY, "the library is not named")
    def test_calls_of_stof_are_right(self):
        library, plans = steps.load(LIBRARY), []
        providers_of = steps.ours(library, plans)
        for name in ("stof", "stof_two"):
            with self.subTest(name):
                out = providers_of[name](self.case).launch(0)
                self.case.check(out, self.expected, "f16")
        self.assertEqual(len(plans), 3)  # one of both kinds, and two
        for plan in plans:
            plan.close()


@unittest.skipUnless(torch and LIBRARY, "there is no torch, or the library is not named")
class FreshInputs(unittest.TestCase):
    """bench/peers/fresh_inputs.py, on the CPU, where nothing begins early."""

    def setUp(self):
        self.problem = StepProblem((Item(1, 40), Item(2, 9), Item(17, 33)), 16, masks.causal(), heads=4, kv_heads=2, head_dim=16)
        self.library = steps.load(LIBRARY)

    def test_a_chain_has_the_bits_of_each_by_itself(self):
        self.assertEqual(fresh_inputs.differing(self.library, self.problem, "cpu"), 0)

    def test_what_reads_the_inputs_before_is_counted(self):
        chain = fresh_inputs.Chain(self.library, self.problem, "cpu")
        wanted = chain.by_themselves()

        def run_early():
            for number in range(fresh_inputs.INPUTS):
                chain.step.launch()  # with what the one before has left
                chain.outputs[number].copy_(chain.step.out)
                chain.case.q.copy_(chain.inputs[number][0])

        self.assertGreaterEqual(chain.differing(run_early, wanted), fresh_inputs.ROUNDS * (fresh_inputs.INPUTS - 1))
        chain.step.close()


class Asked(unittest.TestCase):
    def asked(self, broke, unusable):
        def prepared(providers, case, peers, check):
            name = next(iter(providers))
            peers[name] = {"error": 0} if name == "good" else {"failed": "an illegal address"}
            return {name: "contender"} if name == "good" else {}

        peers = {}
        with mock.patch.object(steps, "prepared", prepared), mock.patch.object(steps, "unusable", lambda: unusable):
            return steps.contenders_of({"good": None, "bad": None}, mock.Mock(), peers, broke), peers

    def test_who_fails_is_recorded(self):
        self.assertEqual(self.asked({}, False), ({"good": "contender"}, {"good": {"error": 0}, "bad": {"failed": "an illegal address"}}))

    def test_who_leaves_the_gpu_unusable_is_named_and_not_asked_again(self):
        with self.assertRaises(steps.Broken) as broken:
            self.asked({}, True)
        self.assertEqual((broken.exception.name, broken.exception.text), ("bad", "an illegal address"))
        self.assertEqual(self.asked({"bad": "it was"}, True)[1]["bad"], {"failed": "it was"})
        with mock.patch.object(steps.subprocess, "call", return_value=0) as call, mock.patch("builtins.print"):
            self.assertEqual(steps.gone_on(["steps.py", "--library", "a.so", "--out", "b.json"], broken.exception, 99.6), 0)
        words = call.call_args.args[0][2:]
        self.assertEqual(steps.options(words).broke, ["bad=an illegal address"])
        self.assertEqual(steps.options([*words, "--broke", "worse=x"]).broke, ["bad=an illegal address", "worse=x"])
        self.assertEqual(steps.options(words).seconds, 100)

    def test_a_refusal_of_lists_on_the_device_is_no_failure(self):
        refusal = steps.c_library.InvalidArgument(2, "no such lists")
        with mock.patch.object(steps, "StofStep") as step, mock.patch.object(steps, "torch"):
            step.return_value.launch.side_effect = refusal
            with self.assertRaisesRegex(providers.NotTaken, "^no such lists$"):
                steps.stof(None, [], mock.Mock(), listed="device")
            with self.assertRaises(steps.c_library.InvalidArgument):
                steps.stof(None, [], mock.Mock())


if __name__ == "__main__":
    unittest.main()
