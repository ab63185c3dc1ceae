#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/peers/continuous.py: prompts are drawn the same each time, the cache has room for them, contenders take turns, tokens are checked before
times count, and one that is wrong or not installed leaves them to the others."""

import argparse
import sys
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "bench"), str(ROOT / "bench/peers")]
import continuous  # noqa: E402

FLASH = ["flash_attention_2", "flash_attention_3", "flash_attention_4"]


class Prompts(unittest.TestCase):
    def drawn(self, **changed):
        asked = {"seed": 3, "requests": 9, "least": 2, "most": 7, **changed}
        return continuous.drawn_prompts(argparse.Namespace(**asked), 50)

    def test_are_as_long_as_asked_for_and_the_same_each_time(self):
        prompts = self.drawn()
        self.assertEqual((len(prompts), len(prompts[0])), (9, 7))
        self.assertTrue(all(2 <= len(prompt) <= 7 and max(prompt) < 50 for prompt in prompts))
        self.assertEqual(prompts, self.drawn())
        self.assertNotEqual(prompts, self.drawn(seed=4))

    def test_have_room_in_the_cache(self):
        self.assertEqual(continuous.blocks_of([[0] * 16, [0] * 17], 16, 16), 3 + 4)

    def test_begin_the_same_by_their_first_token(self):
        self.assertEqual(continuous.same_first([[1, 2], [3, 4], [5, 6]], [[1, 9], [3, 4], [7, 6]]), 2)


class Turns(unittest.TestCase):
    def measured(self, rounds=2, gap=0.0, slow=None, row=continuous.BY_ITSELF, **answers):
        """`answers`: of a contender its tokens, or what it raises."""
        self.order, implementations = [], {implementation: name for name, implementation in continuous.CONTENDERS.items()}

        def timed(implementation, prompts, asked):
            name = implementations[implementation]
            self.order.append(name)
            self.assertEqual((prompts, asked), ([[1], [2]], continuous.ASKED[row]))
            answer = answers.get(name, ModuleNotFoundError(name))
            if isinstance(answer, Exception):
                raise answer
            return answer, 20.0 if name == slow else 3.0 if len(self.order) > len(continuous.CONTENDERS) else 1.0

        batches = mock.Mock(timed=timed, gap=lambda prompts, made: gap)
        return continuous.Row(batches, [[1], [2]], row, "bf16").measure(rounds)

    def test_every_second_round_is_backwards_and_what_is_not_installed_is_asked_once(self):
        peers = self.measured(stof=[[1, 2], [3, 4]], sdpa=[[1, 2], [3, 4]])
        self.assertEqual(self.order, ["sdpa", "stof", *FLASH, "stof", "sdpa"])
        self.assertEqual(peers["flash_attention_2"], {"failed": "ModuleNotFoundError: flash_attention_2"})
        stof = peers["stof"]
        self.assertEqual((stof["median_us"], stof["best_us"], stof["calls"], stof["each"]["median_us"]), (2e6, 1e6, 2, 0.5e6))
        self.assertEqual((stof["same_tokens"], stof["same_first"], stof["gap"]), ([2, 2], 2, 0.0))

    def test_of_graphs_are_without_sdpa(self):
        peers = self.measured(row=continuous.GRAPHS, stof=[[1, 2], [3, 4]], sdpa=[[1, 2], [3, 4]])
        self.assertEqual(self.order, ["stof", *FLASH, "stof"])
        self.assertEqual((sorted(peers), peers["stof"]["calls"]), (["flash_attention_2", "flash_attention_3", "flash_attention_4", "stof"], 2))

    def test_one_far_behind_has_one_round(self):
        peers = self.measured(3, slow="sdpa", stof=[[1, 2], [3, 4]], sdpa=[[1, 2], [3, 4]])
        self.assertEqual((peers["sdpa"]["calls"], peers["stof"]["calls"]), (1, 3))

    def test_other_texts_are_likely_ones_or_have_no_time(self):
        answers = {"stof": [[1, 7], [9, 4]], "sdpa": [[1, 2], [3, 4]]}
        stof = self.measured(gap=0.1, **answers)["stof"]
        self.assertEqual((stof["same_tokens"], stof["same_first"], stof["gap"], stof["calls"]), ([1, 0], 1, 0.1, 2))
        unlikely = {"failed": "ValueError: a token is 2 standard deviations below the likeliest"}
        peers = self.measured(gap=2.0, **answers)  # those that the others are compared with as well
        self.assertEqual((peers["stof"], peers["sdpa"]), (unlikely, unlikely))
        self.assertIn("tokens, not", self.measured(stof=[[1], [3]], sdpa=[[1, 2], [3, 4]])["stof"]["failed"])


class Head(unittest.TestCase):
    def test_says_what_rows_of_one_file_have_in_common(self):
        asked = {"requests": 2, "least": 1, "most": 3, "block_size": 16, "batch_tokens": 64, "seed": 0, "rounds": 1}
        arguments = argparse.Namespace(device="cpu", size="small", tokens=8, commit=None, **asked)
        with mock.patch.object(continuous, "version", lambda name: f"{name} 1"), \
                mock.patch.object(continuous, "environment", lambda threads, packages: {"commit": "tree", "packages": packages}):  # fmt: skip
            head, same = continuous.head_of(arguments, 2)
        self.assertEqual({name: head[name] for name in asked}, asked)
        self.assertEqual((head["command"], head["commit"], head["model"], head["made"], head["dtype"]), ("peers continuous cpu", "tree", "small", 8, "f32"))
        self.assertEqual(head["packages"]["transformers"], "transformers 1")
        self.assertEqual(same, ("command", "commit", "processor", "threads", *asked, "model", "made", "dtype"))


if __name__ == "__main__":
    unittest.main()
