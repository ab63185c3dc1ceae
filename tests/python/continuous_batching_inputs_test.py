#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What STOF's attention in continuous batching of transformers is given: names, masks of the user, and what is refused.

usage: continuous_batching_inputs_test.py LIBSTOF.SO    exit status 77 where there is no transformers with it
"""

import unittest
from unittest import mock

from continuous_batches import ContinuousBatching, alone, by, in_a_batch, made, texts

import torch
from transformers.generation.continuous_batching import continuous_api

import stof
from stof.continuous_batching import paged_attention_forward

class UsersMasks(ContinuousBatching):
    def both(self, name, mask, **config):
        model = made(name)
        stof.transformers.use(model, mask)
        return in_a_batch(model, texts(), **config), alone(model, texts())

    def test_go_by_the_tokens_of_each_request(self):
        for name, mask in (("llama", "sink(4) | window(6)"), ("qwen3", "strided(3) | heads(0-1: window(2), *: window(20))"),
                           ("llama", lambda b, h, q, k: (q - k < 9) | (k % 7 == 0))):  # fmt: skip
            for more in ({}, {"block_size": 4, "num_blocks": 60}):
                with self.subTest(f"{name} {mask} {more}"):
                    ours, expected = self.both(name, mask, **more)
                    self.assertEqual(ours, expected)
                    self.assertNotEqual(ours, in_a_batch(made(name), texts()))

    def test_beside_a_window_may_not_look_at_positions(self):
        for name in ("mistral, a window", "gpt-oss, sinks"):
            for mask in ("window(5)", "strided(2)"):
                with self.subTest(f"{name} {mask}"):
                    ours, expected = self.both(name, mask)
                    self.assertEqual(ours, expected)
                    self.assertNotEqual(ours, in_a_batch(made(name), texts()))
        with self.assertRaisesRegex(RuntimeError, r"^the mask sink\(2\) \| window\(5\) in continuous batching for layers with a sliding window, whose cache "
                                    r"drops keys, and with them where they stood; accepted there: causal, windows, strided, and"):  # fmt: skip
            self.both("mistral, a window", "sink(2) | window(5)")

    def test_that_differ_by_length_or_item_are_refused(self):
        for mask in ("natten(8,8,3,3)", "batch(0: window(3), *: causal)", lambda b, h, q, k: q - k < b + 3):
            with self.subTest(mask), self.assertRaisesRegex(RuntimeError, "in continuous batching, where requests grow and come in any order; accepted: "):
                self.both("llama", mask)


class Names(ContinuousBatching):
    def test_a_model_at_stof_stays_there_where_flash_attention_is_installed(self):
        self.patch(continuous_api, "is_flash_attn_3_available", lambda **_: True)
        names = []

        def seen(module, *given, **named):
            names.append(module.config._attn_implementation)
            return paged_attention_forward(module, *given, **named)

        model = made("llama")
        stof.transformers.use(model, "window(4)")
        with by(seen, "paged|stof"):
            in_a_batch(model, texts())
        self.assertEqual((set(names), model.config._attn_implementation), ({"paged|stof"}, "stof"))

    def test_of_others_go_to_flash_attention_as_before(self):
        self.patch(continuous_api, "is_flash_attn_3_available", lambda **_: True)
        model = mock.Mock(_supports_flash_attn=True, config=mock.Mock(_attn_implementation="sdpa"))
        manager = mock.Mock(_original_attn_impl=None)
        continuous_api.ContinuousBatchingManager.switch_to_cb_friendly_attn(manager, model)
        model.set_attn_implementation.assert_called_once_with("paged|flash_attention_3")
        self.assertEqual(manager._original_attn_impl, "sdpa")

    def test_register_gives_both_names(self):
        stof.transformers.register("mine")
        stof.transformers.register("mine")
        for name in ("mine", "paged|mine", "paged|stof"):
            model = made("llama", implementation=name)
            self.assertEqual(in_a_batch(model, texts()), in_a_batch(made("llama"), texts()))
            self.assertEqual(model.config._attn_implementation, name)


class Errors(ContinuousBatching):
    def setUp(self):
        super().setUp()
        self.calls = []
        keep = lambda module, *given, **named: self.calls.append((module, given, named)) or paged_attention_forward(module, *given, **named)  # noqa: E731
        with by(keep, "paged|stof"):
            in_a_batch(made("llama"), texts(5))

    def refused(self, error, message, **changed):
        module, (query, key, value, _), named = self.calls[-1]
        of_call = {"query": query, "key": key, "value": value, "attention_mask": None, **named, **changed}
        with self.assertRaisesRegex(error, message):
            paged_attention_forward(changed.get("module", module), **{name: one for name, one in of_call.items() if name != "module"})

    def test_without_a_cache(self):
        message = r'^attention by paged\|stof without a paged cache; accepted: model.generate_batch\(...\), and for other calls "stof"$'
        self.refused(stof.InvalidArgument, message, cache=None)
        with self.assertRaisesRegex(stof.InvalidArgument, message):
            made("llama", implementation="paged|stof")(torch.tensor(texts(5)))
        self.refused(stof.InvalidArgument, "without cu_seq_lens_q, cu_seq_lens_k, .*; accepted: the calls that continuous batching makes$", read_index=None)

    def test_what_is_not_computed(self):
        query = self.calls[-1][1][0]
        self.refused(stof.Unsupported, "^requests of continuous batching with an attention mask beside them; accepted: ", attention_mask=torch.ones(1, 1, 1, 1))
        self.refused(stof.Unsupported, "neither adds a position bias nor keeps weights", position_bias=query)
        self.refused(stof.Unsupported, "^attention by stof with head_mask, a Tensor", head_mask=query)
        self.refused(stof.InvalidArgument, r"^sinks s_aux \[3\] for 4 heads; accepted: one for each head$", s_aux=torch.zeros(3))
        module = self.calls[-1][0]
        self.addCleanup(setattr, module, "is_causal", True)
        module.is_causal = False
        self.refused(stof.Unsupported, "with attention that is not causal; accepted: ")

    def test_keys_that_are_not_the_cache_s(self):
        key, value = self.calls[-1][1][1:3]
        wider = lambda one: torch.nn.functional.pad(one, (0, 8))  # noqa: E731
        self.refused(stof.InvalidArgument, r"^query \[2, 4, 1, 16\] and key \[1, 2, 1, 16\] over a paged cache; accepted: \[1, heads, tokens of all requests, D\]$",
                     query=self.calls[-1][1][0].expand(2, -1, -1, -1))  # fmt: skip
        self.refused(stof.Unsupported, r"^keys of 2 heads of 24 in torch.float32 on cpu for a paged cache with 2 of 16 in torch.float32 on cpu; accepted: "
                     "the same, or generate without continuous batching$", key=wider(key))  # fmt: skip
        self.refused(stof.Unsupported, "^keys of 2 heads of 16 in torch.bfloat16", key=key.bfloat16(), value=value.bfloat16())
        self.refused(stof.Unsupported, "^values of 24 beside keys of 16 for a paged cache with heads of 16; accepted: as wide or narrower", value=wider(value))

    def test_narrower_values_are_computed(self):
        module, (query, key, value, _), named = self.calls[-1]
        value = value.clone()
        whole = paged_attention_forward(module, query, key, value, None, **named)[0]
        narrow = paged_attention_forward(module, query, key, value[..., :10], None, **named)[0]
        self.assertTrue(torch.equal(narrow, whole[..., :10]))

    def test_a_table_of_blocks_that_are_not_of_pages(self):
        cache = self.calls[-1][2]["cache"]
        with mock.patch.object(cache, "block_size", 20):
            self.refused(stof.Unsupported, "^a block_table of blocks of 20 keys; accepted: blocks of a multiple of 16, without a window, or read_index$",
                         block_table=torch.zeros(1, 1, 3, dtype=torch.int32), max_seqlen_q=1, max_seqlen_k=1)  # fmt: skip


if __name__ == "__main__":
    unittest.main()
