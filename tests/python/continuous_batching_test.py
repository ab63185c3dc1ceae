#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Continuous batching of transformers by STOF's attention, beside its own and beside generate, on the CPU and on a GPU where there is one.

usage: continuous_batching_test.py LIBSTOF.SO    exit status 77 where there is no transformers with it
"""

import unittest

from continuous_batches import (
    DEVICES, FULL, LENGTHS, MODELS, SMALL, TIGHT, TOKENS, UNCAPPED, ContinuousBatching, alone, by, in_a_batch, made, texts)  # fmt: skip

import torch
import transformers
from transformers import ContinuousBatchingConfig, GenerationConfig
from transformers.generation.continuous_batching import cache as paged_cache
from transformers.generation.continuous_batching import initialization, offloading_manager
from transformers.integrations.eager_paged import eager_paged_attention_forward

import stof
from stof import paged_steps
from stof.continuous_batching import paged_attention_forward
from stof.plans import planned

class Tokens(ContinuousBatching):
    def test_are_those_of_transformers(self):
        for device in DEVICES:
            for name in UNCAPPED:
                own = in_a_batch(made(name, device, "paged|eager"), texts())
                self.assertGreater(len({token for text in own for token in text}), 10)
                for more in ({}, {"block_size": 4, "num_blocks": 60}, {"block_size": 48, "num_blocks": 12}, {"block_size": 256, "num_blocks": 9}):
                    with self.subTest(f"{name} {device} {more}"):
                        self.assertEqual(in_a_batch(made(name, device), texts(), **more), own)

    def test_are_those_of_generate(self):
        for name in MODELS:
            with self.subTest(name):
                self.assertEqual(in_a_batch(made(name), texts()), alone(made(name, implementation="eager"), texts()))

    def test_of_requests_that_had_to_leave_the_cache(self):
        left = self.counted(offloading_manager.OffloadingManager, "offload_requests")
        for name in ("llama", "gpt-oss, sinks"):
            left.clear()
            with self.subTest(name):
                tight = {"num_blocks": 18, "allow_block_sharing": False} if name == "llama" else {"num_blocks": 24}
                self.assertEqual(in_a_batch(made(name), texts(), 40, **tight), alone(made(name, implementation="eager"), texts(), 40))
                self.assertGreater(sum(left), 0)

    def test_of_padded_steps(self):
        self.with_padding()
        padding = {"q_padding_interval_size": 24, "kv_padding_interval_size": 100}
        for name in MODELS:
            for more in ({}, {"block_size": 4, "num_blocks": 60}):
                with self.subTest(f"{name} {more}"):
                    self.assertEqual(in_a_batch(made(name), texts(), **more, **padding), alone(made(name, implementation="eager"), texts()))

    def test_of_steps_that_are_compiled(self):
        config = {"varlen_compile_config": transformers.CompileConfig(backend="eager", fullgraph=False, mode=None)}
        self.assertEqual(in_a_batch(made("llama"), texts(), **config), alone(made("llama", implementation="eager"), texts()))

    def test_by_a_table_of_blocks(self):
        """Which transformers makes for FlashAttention alone."""
        tables = self.counted(paged_steps, "_of_blocks")
        self.patch(initialization, "ensure_decode_fast_path_is_available", lambda *_: None)
        for padded in (False, True):
            if padded:
                self.with_padding()
            for name in FULL:
                for more in ({}, {"block_size": 48, "num_blocks": 12}):
                    tables.clear()
                    with self.subTest(f"{name} {more} padded {padded}"):
                        found = in_a_batch(made(name), texts(), max_blocks_per_request=8, **more)
                        self.assertEqual(found, alone(made(name, implementation="eager"), texts()))
                        self.assertGreater(len(tables), 3)

    def test_of_prefixes_that_requests_share_and_of_forks(self):
        shared = self.counted(paged_cache.PagedAttentionCache, "search_prefix_match")
        prefix, ends = texts(48)[0], texts(5, 9, 20, 1)
        prompts = [prefix + end for end in ends] + [prefix[:32] + ends[1]]
        self.assertEqual(in_a_batch(made("llama"), prompts), alone(made("llama", implementation="eager"), prompts))
        self.assertGreater(max(shared), 0)
        asked = GenerationConfig(max_new_tokens=TOKENS, do_sample=True, top_k=1, num_return_sequences=3, eos_token_id=-1, pad_token_id=0)
        with made("llama").continuous_batching_context_manager(asked, continuous_batching_config=ContinuousBatchingConfig(**TIGHT)) as manager:
            manager.add_request(prompts[0], request_id="one", max_new_tokens=TOKENS)
            found = [manager.get_result(timeout=20).generated_tokens for _ in range(3)]
        self.assertEqual(found, alone(made("llama", implementation="eager"), prompts[:1]) * 3)

    @unittest.skipUnless(torch.cuda.is_available(), "needs a GPU")
    def test_of_recorded_graphs(self):
        for name in [name for name in MODELS if "gpt-oss" not in name]:  # whose experts may wait for the device
            for more in ({}, {"use_async_batching": True}, {"block_size": 256, "num_blocks": 9}):
                for dtype in (torch.float32, torch.bfloat16):
                    with self.subTest(f"{name} {more} {dtype}"):
                        model = made(name, "cuda").to(dtype)
                        found = [in_a_batch(model, texts(), **{**TIGHT, **more, "use_cuda_graph": graphs}) for graphs in (False, True)]
                        same = sum(one == other for pair in zip(*found) for one, other in zip(*pair))
                        # 16 bits round likely tokens together, and plans of other sizes sum in another order.
                        self.assertGreaterEqual(same, (1.0 if dtype == torch.float32 else 0.5) * TOKENS * len(LENGTHS))


def eager_with_cap(module, query, key, value, attention_mask, cache, scaling, softcap, **given):
    """As eager_paged_attention_forward, which leaves the cap out."""
    keys, values = cache.update(key, value, module.layer_idx, given["read_index"], given["write_index"])
    keys, values = (one.transpose(0, 1).repeat_interleave(module.num_key_value_groups, 0) for one in (keys, values))
    scores = softcap * torch.tanh(query[0] @ keys.mT * scaling / softcap) + attention_mask[0]
    return (scores.float().softmax(-1).to(values.dtype) @ values).transpose(0, 1).unsqueeze(0), None


class Layers(ContinuousBatching):
    """Layer by layer beside what transformers computes of the same cache."""

    def compared(self, name, device, dtype, most, **config):
        """The largest difference of results, and how many calls there were of which kinds."""
        worst, kinds = 0.0, set()

        def both(module, query, key, value, attention_mask, cache, **given):
            nonlocal worst
            kept = [one.clone() for one in (*cache.key_cache, *cache.value_cache)]
            theirs = eager_with_cap if given.get("softcap") else eager_paged_attention_forward
            expected = theirs(module, query, key, value, attention_mask, cache=cache, **given)[0]
            written = [one.clone() for one in (*cache.key_cache, *cache.value_cache)]
            for one, before in zip((*cache.key_cache, *cache.value_cache), kept):
                one.copy_(before)
            found = paged_attention_forward(module, query, key, value, None, cache=cache, **given)[0]
            for one, other in zip((*cache.key_cache, *cache.value_cache), written):
                before_padding = lambda slots: slots[: cache.read_trash_index].nan_to_num()  # noqa: E731  (what is not written yet is anything)
                self.assertTrue(torch.equal(before_padding(one), before_padding(other)))
            rows = given["cu_seq_lens_q"][-1].item()
            self.assertEqual(found.shape, expected.shape)
            self.assertEqual(found[:, rows:].abs().sum().item(), 0)
            worst = max(worst, (found - expected)[:, :rows].abs().max().item() / expected[:, :rows].abs().max().item())
            kinds.add((given["max_seqlen_q"] == 1, given["read_index"][0].numel() == 0))
            return found, None

        with by(both):
            in_a_batch(made(name, device, "paged|eager").to(dtype), texts(), warmup=False, **config)  # which reads what nobody has written
        self.assertLess(worst, most)
        return kinds

    def test_compute_the_same_and_write_the_same(self):
        for device in DEVICES:
            for name in MODELS:
                for dtype, most in ((torch.float32, 1e-5), (torch.bfloat16, 2e-2)):
                    for more in ({}, {"block_size": 5, "num_blocks": 60}):
                        with self.subTest(f"{name} {device} {dtype} {more}"):
                            kinds = self.compared(name, device, dtype, most, **more)
                            self.assertEqual(kinds, {(True, False), (False, False), (False, True)})

    def test_compute_the_same_of_padded_steps(self):
        self.with_padding()
        for device in DEVICES:
            for name in MODELS:
                with self.subTest(f"{name} {device}"):
                    self.compared(name, device, torch.float32, 1e-5, q_padding_interval_size=24, kv_padding_interval_size=100)

    def test_follow_numbers_that_change_where_they_lie(self):
        """As those of a recorded graph do."""
        calls = []
        keep = lambda *given, **named: calls.append((given, named)) or paged_attention_forward(*given, **named)  # noqa: E731
        with by(keep, "paged|stof"):
            in_a_batch(made("llama"), texts(40), max_batch_tokens=64)
        (module, query, key, value, mask), named = next(call for call in calls[::-1] if call[0][0].layer_idx == 0)
        before = paged_attention_forward(module, query, key, value, mask, **named)[0].clone()
        named["cu_seq_lens_k"][1] = 20  # of what was read its beginning alone
        after = paged_attention_forward(module, query, key, value, mask, **named)[0]
        shorter = {**named, "cu_seq_lens_k": named["cu_seq_lens_k"].clone(), "read_index": [named["read_index"][0][:20].clone()]}
        self.assertTrue(torch.equal(after, paged_attention_forward(module, query, key, value, mask, **shorter)[0]))
        self.assertFalse(torch.equal(after, before))

    @unittest.skipUnless(torch.cuda.is_available(), "needs a GPU")
    def test_do_not_wait_for_the_device(self):
        def guarded(*given, **named):
            torch.cuda.set_sync_debug_mode("error")
            try:
                return paged_attention_forward(*given, **named)
            finally:
                torch.cuda.set_sync_debug_mode("default")

        for name in MODELS:
            with self.subTest(name), by(guarded, "paged|stof"):
                in_a_batch(made(name, "cuda"), texts())


class Plans(ContinuousBatching):
    def test_few_serve_all_steps_and_tables_are_made_once_for_all_layers(self):
        stof.clear_plans()
        tables, calls = self.counted(paged_steps, "_of_indices"), []
        count = lambda *given, **named: calls.append(0) or paged_attention_forward(*given, **named)  # noqa: E731
        with by(count, "paged|stof"):
            in_a_batch(made("llama"), texts(*range(1, 120, 3)), 8, num_blocks=64)
        self.assertLess(planned.cache_info().misses, 20)
        self.assertGreater(len(tables), 60)
        self.assertEqual(len(calls), SMALL["num_hidden_layers"] * len(tables))

    def test_sizes_are_rounded_up(self):
        sizes = lambda *given: tuple(paged_steps.planned_sizes(*given, 2000).values())  # noqa: E731
        self.assertEqual([sizes(1, 1, 1), sizes(3, 2, 257), sizes(64, 16, 256), sizes(65, 17, 5000), sizes(2, 64, 300), sizes(2, 65, 300)],
                         [(1, 1, 256), (4, 16, 512), (64, 16, 256), (128, 64, 8192), (2, 64, 512), (2, 256, 512)])  # fmt: skip
        self.assertEqual([sizes(1, 1024, 1030), sizes(1, 1025, 1030), sizes(1, 2048, 2048)], [(1, 1024, 2048), (1, 2000, 2048), (1, 2048, 2048)])


if __name__ == "__main__":
    unittest.main()
