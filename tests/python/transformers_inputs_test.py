#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What models of transformers hand to STOF's attention: keywords, masks of their own, packed texts.

usage: transformers_inputs_test.py LIBSTOF.SO    exit status 77 where there is no transformers
"""

import sys
import unittest

import given  # noqa: F401  (finds the package)

try:
    import torch
    import transformers
except ImportError:
    sys.exit(77)

from transformers_test import GROUPED, LENGTH, SMALL, TOKENS, WithoutGradients, left_padding

import stof
import stof.transformers
from stof.transformers import attention_forward

SPARSE = {**SMALL, "num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 12,
          "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_group": 1, "topk_group": 1, "index_topk": 4, "index_n_heads": 2,
          "index_head_dim": 16}  # fmt: skip


class Inputs(WithoutGradients):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)

    def llama(self, **config):
        return transformers.LlamaModel(transformers.LlamaConfig(**GROUPED, **config)).eval()

    def module(self, **attributes):
        made = torch.nn.Module().eval()
        for name, value in attributes.items():
            setattr(made, name, value)
        return made

    def test_keywords_that_change_attention_are_refused(self):
        q, module = torch.randn(1, 2, 9, 16), self.module(is_causal=False)
        own = attention_forward(module, q, q, q, None)[0]
        for name in ("head_mask", "alibi", "attention_bias", "bias", "indices", "block_indices", "encoder_bias", "anything"):
            with self.assertRaisesRegex(stof.Unsupported, rf"^attention by stof with {name}, a Tensor \[2\], which it does not compute; accepted: None, "):
                attention_forward(module, q, q, q, None, **{name: torch.zeros(2)})
            for nothing in (None, False):
                self.assertTrue(torch.equal(own, attention_forward(module, q, q, q, None, **{name: nothing})[0]))
        harmless = {"cu_seq_lens_q": torch.tensor([0, 9]), "max_length_k": 9, "position_ids": torch.arange(9)[None], "deterministic": True, "use_cache": True,
                    "output_hidden_states": True, "cache_position": torch.arange(9), "logits_to_keep": 1, "image_sizes": [[2, 2]]}  # fmt: skip
        self.assertTrue(torch.equal(own, attention_forward(module, q, q, q, None, **harmless)[0]))

    def test_models_that_choose_keys_are_refused(self):
        ids, pairs = torch.randint(5, 99, (2, 30)), torch.ones(30, 30, dtype=torch.bool).tril()[None, None].expand(2, 1, -1, -1)
        model = transformers.DeepseekV32Model(transformers.DeepseekV32Config(**SPARSE)).eval()
        model.set_attn_implementation("stof")
        for mask in (pairs, None):
            with self.assertRaisesRegex(stof.Unsupported, r"^attention by stof with indices, a Tensor \[2, 30, 4\], which it "):
                model(ids, attention_mask=mask)

    def test_without_a_mask_what_a_module_does_not_say_is_as_in_sdpa(self):
        of_sdpa = transformers.integrations.sdpa_attention.sdpa_attention_forward
        for module in (self.module(), self.module(is_causal=True), self.module(is_causal=False)):
            for queries in (1, 9):
                q = torch.randn(1, 2, queries, 16)
                own, ours = (attend(module, q, q, q, None)[0] for attend in (of_sdpa, attention_forward))
                self.assertLess((own - ours).abs().max().item(), 1e-5)

    def expect_own(self, model, call, seen=slice(None)):
        """What a model of its own attention gives."""
        model.set_attn_implementation("eager")
        own = call()
        model.set_attn_implementation("stof")
        self.assertLess((own - call())[seen].abs().max().item(), 2e-5 * own.abs().max().item())

    def test_models_that_compute_with_their_mask_get_its_pairs(self):
        ids, mask = torch.randint(5, 99, (TOKENS, LENGTH)), left_padding()
        sizes = {"d_model": 64, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 96,
                 "decoder_ffn_dim": 96, "vocab_size": 100}  # fmt: skip
        bird = transformers.BigBirdPegasusModel(transformers.BigBirdPegasusConfig(**sizes)).eval()  # adds it to scores
        self.expect_own(bird, lambda: bird(ids, attention_mask=mask, decoder_input_ids=ids[:, :9])[0])
        towers = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
        siglip = transformers.Siglip2VisionModel(transformers.Siglip2VisionConfig(**towers, patch_size=8, num_patches=16)).eval()  # its head has another form of it
        there = (torch.arange(16) < torch.tensor([[16], [12]])).long()
        image = {"pixel_values": torch.randn(2, 16, 192), "pixel_attention_mask": there, "spatial_shapes": torch.tensor([[4, 4], [3, 4]])}
        self.expect_own(siglip, lambda: siglip(**image).pooler_output)
        lasr = transformers.LasrEncoder(transformers.LasrEncoderConfig(**towers, subsampling_conv_channels=16, num_mel_bins=80)).eval()  # looks for empty rows
        sound = {"input_features": torch.randn(2, 64, 80), "attention_mask": (torch.arange(64) < torch.tensor([[64], [40]])).long()}
        self.expect_own(lasr, lambda: lasr(**sound)[0], there.new_tensor([0]))
        git = transformers.GitModel(transformers.GitConfig(**SMALL, vision_config={**towers, "image_size": 32, "patch_size": 8})).eval()
        self.expect_own(git, lambda: git(ids, attention_mask=mask)[0], mask.bool())
        self.addCleanup(torch._dynamo.reset)
        compiled = torch.compile(git, backend="eager")
        self.assertTrue(torch.equal(compiled(ids, attention_mask=mask)[0], git(ids, attention_mask=mask)[0]))
        stof.transformers.use(git, "window(2)")
        with self.assertRaisesRegex(stof.Unsupported, "by add, so that it would not heed the mask of stof.transformers.use; accepted: "):
            git(ids, attention_mask=mask)

    def test_pairs_go_on_as_that(self):
        made, real = stof.model_masks.made_mask(2, 3, 4, 1), torch.ones(3, 4, dtype=torch.bool).tril(1).expand(2, 1, 3, 4)
        scores = torch.randn(2, 2, 3, 4)
        for use in (lambda one: one[..., :2], lambda one: one.expand(2, 2, 3, 4), lambda one: ~one, lambda one: one & (scores > 0), lambda one: scores + one[:, :, :], lambda one: one + scores,
                    lambda one: (scores > 0) & one, lambda one: one.to(torch.device("cpu")).repeat(1, 2, 1, 1) + scores, lambda one: one.logical_not(),
                    lambda one: torch.where(one, 0.0, -1.0), lambda one: scores.masked_fill(one.transpose(2, 3).transpose(2, 3), 5.0),
                    lambda one: torch.nn.functional.pad(one, (0, 2), value=False), lambda one: torch.all(~one, dim=2)):  # fmt: skip
            wanted = use(real)
            if wanted.is_floating_point() and not torch.isin(wanted, torch.tensor([0.0, -1.0, 5.0])).any():
                wanted = scores + torch.zeros(()).where(real, torch.finfo(torch.float32).min)  # as masks that are added say it
            self.assertTrue(torch.equal(torch.as_tensor(use(made)).as_subclass(torch.Tensor), wanted))
        self.assertEqual((made.dtype, made[:, :].dtype, made[:, :].shape), (torch.bool, torch.bool, (2, 1, 3, 4)))
        for use, name in ((lambda: made[:, :].float(), "float"), (lambda: 1 - made[:, :], "__rsub__"), (lambda: scores * made[:, :], "mul"), (lambda: made + 1, "__add__|add"),
                          (lambda: torch.add(scores, made, alpha=2), "add"),
                          (lambda: torch.nn.functional.pad(made, (0, 2), value=0.0), "pad"), (lambda: made.masked_fill(real, 0), "masked_fill"),
                          (lambda: torch.where(real, made, 0), "where"), (lambda: made[:, :].to(torch.float32), "to")):  # fmt: skip
            with self.assertRaisesRegex(stof.Unsupported, f"^a model that computes with the mask that it has from stof, by ({name}); "):
                use()
        q = torch.randn(2, 2, 3, 16)
        k = torch.randn(2, 2, 4, 16)
        own, ours = (attention_forward(self.module(), q, k, k, mask)[0] for mask in (made, made[:, :]))
        self.assertTrue(torch.equal(own, ours))

    def test_masks_of_one_large_number(self):
        q, seen = torch.randn(2, 2, 9, 16), (torch.rand(2, 1, 9, 9) < 0.5) | torch.eye(9, dtype=torch.bool)
        wanted = attention_forward(self.module(), q, q, q, seen)[0]
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            for number in (-1e4, -1e9, torch.finfo(dtype).min, -float("inf")):
                added = torch.zeros(seen.shape, dtype=dtype).masked_fill(~seen, max(number, torch.finfo(dtype).min) if number > -1e30 else number)
                self.assertTrue(torch.equal(attention_forward(self.module(), q, q, q, added)[0], wanted), f"{dtype} {number}")
        for odd in (torch.zeros(seen.shape).masked_fill(~seen, -100.0), torch.where(seen, 0, -1e4 * (1 + torch.arange(9))), torch.where(seen, 1.0, -1e9)):
            with self.assertRaisesRegex(stof.Unsupported, "^an attention mask of torch.float32 .* of floating point where all are 0 or the least number, or one of -1e4 or less"):
                attention_forward(self.module(), q, q, q, odd.float())

    def test_inputs_of_wrong_sizes_are_named(self):
        model, ids, q = self.llama(), torch.randint(5, 99, (TOKENS, LENGTH)), torch.randn(2, 2, 9, 16)
        model.set_attn_implementation("stof")
        for padded in (left_padding(), left_padding().flip(1)):
            for mask in (padded[:2], padded.repeat(2, 1)):
                with self.assertRaisesRegex(stof.InvalidArgument, rf"^attention_mask \[{len(mask)}, 21\] for a batch of 3; accepted: \[3, tokens\], 1 for a token"):
                    model(ids, attention_mask=mask)
            own = model(ids, attention_mask=padded[1:2].expand(3, -1))[0]
            self.assertTrue(torch.equal(own, model(ids, attention_mask=padded[1:2])[0]))
        with self.assertRaisesRegex(stof.InvalidArgument, r"^attention_mask \[3, 1, 21, 25\]; accepted: \[3, 4, 21, 21\], or 1 where one is for all$"):
            model(ids, attention_mask=torch.ones(3, 1, 21, 25, dtype=torch.bool))
        with self.assertRaisesRegex(stof.InvalidArgument, r"^sinks s_aux \[3\] for 2 heads; accepted: one for each head$"):
            attention_forward(self.module(), q, q, q, None, s_aux=torch.zeros(3))

    def test_a_model_inside_of_another_class(self):
        """As sentence-transformers has it."""
        model, around, ids = self.llama(), torch.nn.Module(), torch.randint(5, 99, (1, 9))
        around.transformers_model = model
        stof.transformers.use(around, "window(1)")
        self.assertEqual((model.config._attn_implementation, str(model.stof_mask)), ("stof", "window(1)"))
        made = model(ids)[0]
        model.set_attn_implementation("sdpa")
        self.assertFalse(torch.allclose(model(ids)[0], made, atol=1e-3))
        model.set_attn_implementation("stof")
        self.assertTrue(torch.equal(model(ids)[0], made))

    def test_what_records_a_model_is_refused(self):
        model, ids = self.llama(), torch.randint(5, 99, (1, 9))
        model.set_attn_implementation("stof")
        for record, said in (
            (lambda: torch.jit.trace(model, (ids,), check_trace=False), "^a model with attention by stof under torch.jit.trace, which records "),
            (lambda: torch.export.export(model, (ids,), strict=False), "^a model with attention by stof under .*torch.export, which records "),
        ):
            with self.assertRaisesRegex(stof.Unsupported, said):
                record()
        with self.assertRaisesRegex(Exception, "attention by stof, of which PyTorch's graphs know nothing; accepted: torch.compile without fullgraph"):
            torch.export.export(model, (ids,), strict=True)

    def test_a_mask_of_the_user_goes_by_the_positions_of_each_packed_text(self):
        ids, lengths = torch.randint(5, 99, (2, 24)), ((8, 16), (6, 6, 12))
        places = torch.stack([torch.cat([torch.arange(length) for length in of_item]) for of_item in lengths])
        alone = lambda model: torch.stack([torch.cat([model(part[None], use_cache=False)[0][0] for part in row.split(of_item)])
                                           for row, of_item in zip(ids, lengths)])  # fmt: skip
        mistral = transformers.MistralModel(transformers.MistralConfig(**GROUPED, sliding_window=4)).eval()
        for model in (self.llama(), mistral):
            for mask in (None, "sink(2) | window(1)", "window(3)", "strided(2)", "where(k % 3 == 0 | k == q)", "documents([0,5])", "global([1,4]) | window(0)"):
                with self.subTest(f"{type(model).__name__} {mask}"):
                    stof.transformers.use(model, mask)
                    wanted = alone(model)
                    made = model(ids, position_ids=places, use_cache=False)[0]
                    self.assertLess((made - wanted).abs().max().item(), 2e-5 * wanted.abs().max().item())
        model = self.llama()
        stof.transformers.use(model, "batch(0: window(3), 1: window(1))")
        self.assertTrue(model(ids, position_ids=places, use_cache=False)[0].isfinite().all())
        for mask, said in (("batch(0: sink(3), 1: window(1))", r"^the mask batch\(0: sink\(3\), 1: window\(1\)\) for texts packed by position_ids, whose positions "),
                           (lambda b, h, q, k: k % 3 == b, "^the mask where.* for texts packed by position_ids")):  # fmt: skip
            stof.transformers.use(model, mask)
            with self.assertRaisesRegex(stof.Unsupported, said):
                model(ids, position_ids=places, use_cache=False)

    def test_sinks_beside_packed_texts(self):
        functions, q = transformers.masking_utils, torch.randn(1, 2, 20, 16)
        packed = functions.and_masks(functions.causal_mask_function, functions.packed_sequence_mask_function(torch.tensor([[0] * 8 + [1] * 12])))
        module, sinks = self.module(stof_mask=stof.Mask("sink(2) | window(1)")), torch.randn(2)
        made = attention_forward(module, q, q, q, stof.model_masks.made_mask(1, 20, 20, 0, 0, packed), s_aux=sinks)[0]
        for part in (slice(0, 8), slice(8, 20)):
            text, length = q[:, :, part], part.stop - part.start
            alone = attention_forward(module, text, text, text, stof.model_masks.made_mask(1, length, length), s_aux=sinks)[0]
            self.assertLess((made[:, part] - alone).abs().max().item(), 1e-5)

    def test_packed_texts_that_see_blocks_too_are_refused_under_a_mask_by_position(self):
        functions, numbers = transformers.masking_utils, torch.tensor([[0, 0, 0, 1, 1, 1]])
        packed = functions.and_masks(functions.causal_mask_function, functions.packed_sequence_mask_function(numbers))
        function = functions.or_masks(packed, functions.blockwise_overlay(torch.tensor([[-1, 0, 0, 0, -1, -1]])))
        made = stof.model_masks.made_mask(1, 6, 6, 0, 0, function).stof
        self.assertIsNone(made.beside(stof.Mask("window(2)"), 1, 6)[1])
        with self.assertRaisesRegex(stof.Unsupported, r"^the mask sink\(2\) for texts packed by position_ids"):
            made.beside(stof.Mask("sink(2)"), 1, 6)


if __name__ == "__main__":
    unittest.main()
