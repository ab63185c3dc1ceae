#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models of transformers by STOF's attention and by their own, on the CPU and on a GPU where there is one.

usage: transformers_test.py LIBSTOF.SO    exit status 77 where there is no transformers
"""

import copy
import itertools
import sys
import unittest

import given  # noqa: F401  (finds the package)

try:
    import torch
    import transformers
except ImportError:
    sys.exit(77)

import stof
import stof.transformers
from stof.plans import planned

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
SMALL = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100,
         "max_position_embeddings": 256, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip
GROUPED = {**SMALL, "num_key_value_heads": 2, "head_dim": 16}
MODELS = {
    "bert": lambda: transformers.BertModel(transformers.BertConfig(**SMALL)),
    "modernbert": lambda: transformers.ModernBertModel(
        transformers.ModernBertConfig(**SMALL, local_attention=8, cls_token_id=1, sep_token_id=2)),
    "gpt2": lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=100, bos_token_id=1, eos_token_id=2)),
    "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**GROUPED)),
    "mistral, a window": lambda: transformers.MistralForCausalLM(transformers.MistralConfig(**GROUPED, sliding_window=8)),
    "mistral, a wide window": lambda: transformers.MistralForCausalLM(transformers.MistralConfig(**GROUPED, sliding_window=30)),
    "gemma2, caps": lambda: transformers.Gemma2ForCausalLM(transformers.Gemma2Config(**GROUPED, sliding_window=8)),
    "gpt-oss, sinks": lambda: transformers.GptOssForCausalLM(
        transformers.GptOssConfig(**GROUPED, sliding_window=8, num_local_experts=4, num_experts_per_tok=2)),
    "llama4, chunks": lambda: transformers.Llama4ForCausalLM(
        transformers.Llama4TextConfig(**GROUPED, attention_chunk_size=8, num_local_experts=2, intermediate_size_mlp=64,
                                      layer_types=["chunked_attention"] * 2)),
    "deepseek, narrow values": lambda: transformers.DeepseekV3ForCausalLM(transformers.DeepseekV3Config(
        **SMALL, num_key_value_heads=4, q_lora_rank=16, kv_lora_rank=16, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=12, n_routed_experts=4,
        num_experts_per_tok=2, moe_intermediate_size=32, n_group=1, topk_group=1)),
    "layoutlm, masks of floats": lambda: transformers.LayoutLMModel(transformers.LayoutLMConfig(**SMALL)),
}  # fmt: skip
DECODERS = [name for name in MODELS if not any(other in name for other in ("bert", "llama4", "layoutlm"))]  # which 5.17 cannot generate with
TOKENS, LENGTH = 3, 21


def left_padding():
    mask = torch.ones(TOKENS, LENGTH, dtype=torch.long)
    mask[1, :6], mask[2, :1] = 0, 0
    return mask


def padding_inside():
    mask = torch.ones(TOKENS, LENGTH, dtype=torch.long)
    mask[1, 4:9] = 0
    return mask


class WithoutGradients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        transformers.logging.set_verbosity_error()
        stof.transformers.register()

    def setUp(self):
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        self.addCleanup(torch.set_grad_enabled, before)


class Models(WithoutGradients):
    def made(self, name, device):
        torch.manual_seed(0)
        return MODELS[name]().eval().to(device)

    def both(self, model, call):
        """What a call gives by the model's own attention and by STOF's."""
        answers = []
        for implementation in ("eager", "stof"):
            model.set_attn_implementation(implementation)
            answers.append(call())
        return answers

    def test_forward(self):
        ids = torch.randint(5, 99, (TOKENS, LENGTH))
        for device in DEVICES:
            for name in MODELS:
                model = self.made(name, device)
                for mask in (None, left_padding(), left_padding().flip(1), padding_inside()):
                    with self.subTest(f"{name} {device} padded {mask is not None}"):
                        given = {} if mask is None else {"attention_mask": mask.to(device)}
                        own, ours = self.both(model, lambda: model(ids.to(device), **given)[0])
                        seen = slice(None) if mask is None else mask.bool().to(device)
                        self.assertLess((own - ours)[seen].abs().max().item(), 2e-5 * own.abs().max().item())

    def test_generate(self):
        ids = torch.randint(5, 99, (TOKENS, LENGTH))
        for device in DEVICES:
            for name in DECODERS:
                model = self.made(name, device)
                for mask in (torch.ones_like(left_padding()), left_padding()):
                    for cache in ("dynamic", "static"):
                        with self.subTest(f"{name} {device} {cache} padded {not mask.all()}"):
                            call = lambda: model.generate(ids.to(device), attention_mask=mask.to(device), max_new_tokens=8, do_sample=False,
                                                          cache_implementation=cache, disable_compile=True)  # fmt: skip
                            own, ours = self.both(model, call)
                            self.assertTrue(torch.equal(own, ours))

    def test_tokens_that_are_made_have_few_plans(self):
        ids = torch.randint(5, 99, (TOKENS, LENGTH))
        for name, users in (("llama", None), ("llama", "window(4) | sink(2)"), ("mistral, a window", None), ("mistral, a wide window", None),
                            ("mistral, a wide window", "window(4) | sink(2)")):  # fmt: skip
            for mask in (torch.ones_like(left_padding()), left_padding()):
                for cache in ("dynamic", "static"):
                    with self.subTest(f"{name} {users} {cache} padded {not mask.all()}"):
                        model = self.made(name, "cpu")
                        stof.transformers.use(model, users)
                        stof.clear_plans()
                        model.generate(ids, attention_mask=mask, min_new_tokens=20, max_new_tokens=20, do_sample=False,
                                       cache_implementation=cache, disable_compile=True)  # fmt: skip
                        # Of the prompt, of up to 256 keys, and of keys that a window drops while there is padding or a sink among them.
                        self.assertIn(planned.cache_info().misses, range(3, 12) if "wide" in name and (users or not mask.all()) else (2,))

    def test_generate_under_a_mask_of_the_user(self):
        ids = torch.randint(5, 99, (TOKENS, LENGTH))
        for mask in (torch.ones_like(left_padding()), left_padding()):
            for cache in ("dynamic", "static"):
                made = []
                for window, users in ((8, None), (None, "window(7)")):
                    torch.manual_seed(0)
                    model = transformers.MistralForCausalLM(transformers.MistralConfig(**GROUPED, sliding_window=window)).eval()
                    stof.transformers.use(model, users)
                    made.append(model.generate(ids, attention_mask=mask, max_new_tokens=20, do_sample=False,
                                               cache_implementation=cache, disable_compile=True))  # fmt: skip
                self.assertTrue(torch.equal(*made), f"{cache} padded {not mask.all()}")

    def test_compiled(self):
        """Between attention and attention: what is compiled ends there, and knows another mask when it comes."""
        ids = torch.randint(5, 99, (TOKENS, LENGTH))
        for device in DEVICES:
            model = self.made("mistral, a window", device)
            self.addCleanup(torch._dynamo.reset)
            for users in (None, "window(5) | sink(2)"):
                stof.transformers.use(model, users)
                compiled = torch.compile(model, backend="eager")
                for mask in (torch.ones_like(left_padding()), left_padding()):
                    for length in (LENGTH, 9):
                        with self.subTest(f"{device} {users} {length} padded {not mask.all()}"):
                            given = {"input_ids": ids[:, :length].to(device), "attention_mask": mask[:, :length].to(device)}
                            self.assertTrue(torch.equal(compiled(**given)[0], model(**given)[0]))
            wider = model(**given)[0]
            stof.transformers.use(compiled, "window(2)")  # of the model that it has wrapped
            self.assertFalse(torch.equal(model(**given)[0], wider))
            self.assertTrue(torch.equal(compiled(**given)[0], model(**given)[0]))
            stof.transformers.use(model, "window(5) | sink(2)")
            how = transformers.CompileConfig(backend="eager", mode=None)
            how._compile_all_devices = True  # as on a GPU by default
            call = lambda **compile: model.generate(ids.to(device), attention_mask=left_padding().to(device), max_new_tokens=4, do_sample=False,
                                                    cache_implementation="static", **compile)  # fmt: skip
            self.assertTrue(torch.equal(call(compile_config=how), call(disable_compile=True)))
        doge = transformers.DogeForCausalLM(transformers.DogeConfig(**GROUPED)).eval()
        stof.transformers.use(doge)
        with self.assertRaisesRegex(stof.Unsupported, r"an attention mask of torch.float32 \[3, 4, 21, 21\]; accepted: bool"):
            torch.compile(doge, backend="eager")(ids)

    def test_adapters(self):
        """PEFT is not needed here: what has adapters is a module that gives its model so."""
        model = self.made("mistral, a window", "cpu")
        adapted = torch.nn.Module()
        adapted.get_base_model = lambda: model
        ids = torch.randint(5, 99, (TOKENS, LENGTH))
        stof.transformers.use(model)
        wider = model(ids)[0]
        stof.transformers.use(adapted, "window(2)")
        self.assertFalse(torch.equal(model(ids)[0], wider))
        with self.assertRaisesRegex(stof.InvalidArgument, "a model of type Linear; accepted: a transformers.PreTrainedModel"):
            stof.transformers.use(torch.nn.Linear(2, 2))

    def test_encoder_decoders(self):
        config = {side + word: 1 if word == "layers" else 4 if "heads" in word else 64
                  for side in ("encoder_", "decoder_") for word in ("layers", "attention_heads", "ffn_dim")}  # fmt: skip
        torch.manual_seed(0)
        model = transformers.BartModel(transformers.BartConfig(d_model=64, vocab_size=100, **config)).eval()
        ids = torch.randint(5, 99, (TOKENS, LENGTH))
        for mask in (left_padding(), left_padding().flip(1)):
            for queries in (1, 9, LENGTH):
                decoded = torch.randint(5, 99, (TOKENS, queries))
                own, ours = self.both(model, lambda: model(ids, attention_mask=mask, decoder_input_ids=decoded)[0])
                self.assertLess((own - ours).abs().max().item(), 1e-5)
        with self.assertRaisesRegex(stof.Unsupported, "a mask for BartModel, an encoder-decoder; accepted: None, or another model"):
            stof.transformers.use(model, "window(4)")

    def test_a_text_without_tokens(self):
        mask = left_padding()
        mask[0] = 0
        model, ids = self.made("llama", "cpu"), torch.randint(5, 99, (TOKENS, LENGTH))
        own, ours = self.both(model, lambda: model(ids, attention_mask=mask)[0])
        self.assertLess((own - ours)[mask.bool()].abs().max().item(), 1e-5)

    def test_texts_packed_one_after_the_other(self):
        model = self.made("llama", "cpu")
        ids, places = torch.randint(5, 99, (2, 20)), torch.cat([torch.arange(8), torch.arange(12)])[None].expand(2, -1)
        own, ours = self.both(model, lambda: model(ids, position_ids=places)[0])
        self.assertLess((own - ours).abs().max().item(), 1e-5)

    def test_masks_of_models_are_expressions(self):
        functions, paddings = transformers.masking_utils, torch.tensor([0, 6])
        for function, text in (
            (functions.sliding_window_causal_mask_function(8), "where(k > q - 8 & k <= q)"),
            (functions.sliding_window_bidirectional_mask_function(8), None),
            (functions.chunked_causal_mask_function(8, paddings * 0), "where(k / 8 == q / 8 & k <= q)"),
            (functions.chunked_causal_mask_function(8, paddings), None),
            (functions.causal_mask_function, "causal"),
        ):
            for first in (0, 16, 160):
                made = stof.model_masks.made_mask(2, 3, 30, 27 + first, first, function, torch.ones(2, 30 + first)).stof.mask
                self.assertEqual((str(made)[:6] == "where(" or str(made) == "causal", made.depends_on_length), (True, False))
                self.assertIn(text, (None, str(made)))

    def test_masks_of_the_user(self):
        """Which go by the positions of tokens, where the model's own may count padding."""
        ids, i = torch.randint(5, 99, (TOKENS, LENGTH)), torch.arange(LENGTH)
        causal = lambda q, k, padding: q >= k
        for name, of_model in (
            ("bert", lambda q, k, padding: q == q), ("llama", causal),
            ("mistral, a window", lambda q, k, padding: (q >= k) & (q - k < 8)), ("mistral, a wide window", causal),
            ("llama4, chunks", lambda q, k, padding: (q >= k) & ((q - padding) // 8 == (k - padding) // 8)),
        ):  # fmt: skip
            model = self.made(name, "cpu")
            for tokens in (None, left_padding(), left_padding().flip(1), padding_inside()):
                with self.subTest(f"{name} {None if tokens is None else tokens.tolist()}"):
                    there = torch.ones(TOKENS, LENGTH, dtype=torch.long) if tokens is None else tokens
                    places, padding = there.cumsum(1) - 1, (there.cumsum(1) == 0).sum(1)[:, None, None]
                    q, k = places[:, :, None], places[:, None]
                    pairs = ((q - k).abs() <= 4) | (q == 0) | (k == 0)
                    pairs = (pairs & of_model(i[:, None], i, padding) & there.bool()[:, None])[:, None]
                    model.set_attn_implementation("sdpa")
                    own = model(ids, attention_mask=pairs)[0]
                    stof.transformers.use(model, "window(4) | global(1)")
                    self.assertLess((own - model(ids, attention_mask=tokens)[0])[there.bool()].abs().max().item(), 2e-5 * own.abs().max().item())
            model.set_attn_implementation("sdpa")
            own = model(ids)[0]
            stof.transformers.use(model)
            self.assertLess((own - model(ids)[0]).abs().max().item(), 2e-5 * own.abs().max().item())

    def test_a_window_that_drops_keys_keeps_positions(self):
        """Under masks of the user: a text at once, and in steps."""
        ids = torch.randint(5, 99, (TOKENS, LENGTH))
        model, config = self.made("mistral, a window", "cpu"), {}
        caches = (lambda: transformers.DynamicCache(config=model.config), lambda: transformers.StaticCache(config=model.config, max_cache_len=40))
        for users in ("window(3) | sink(2)", "strided(2)", "where(k % 3 == 0 | k == q)", "global([1,15]) | window(2)", "!sink(4)", "prefix(9)"):
            for tokens in (None, left_padding(), padding_inside()):
                config = {} if tokens is None else {"attention_mask": tokens}
                stof.transformers.use(model, users)
                seen = slice(None) if tokens is None else tokens.bool()
                whole = model(ids, **config).logits
                for cache in caches:
                    for steps in ([12, *[1] * 9], [5, 9, 7]):
                        with self.subTest(f"{users} {config} {cache().layers[0]} {steps}"):
                            kept, ends, parts = cache(), [0, *itertools.accumulate(steps)], []
                            for begin, end in itertools.pairwise(ends):
                                of_step = {} if tokens is None else {"attention_mask": tokens[:, :end]}
                                parts.append(model(ids[:, begin:end], past_key_values=kept, **of_step).logits)
                            self.assertLess((torch.cat(parts, 1) - whole)[seen].abs().max().item(), 2e-5 * whole.abs().max().item())
        stof.transformers.use(model, "documents([0,7])")
        with self.assertRaisesRegex(stof.Unsupported, "documents in a mask, for keys that do not begin at position 0"):
            model.generate(ids, max_new_tokens=2)

    def test_a_prompt_with_padding_at_its_end_is_continued(self):
        """A static cache counts its tokens in place, before the first layer asks for the mask."""
        model, ids, more = self.made("llama", "cpu"), torch.randint(5, 99, (TOKENS, LENGTH)), torch.randint(5, 99, (TOKENS, 3))
        tokens = left_padding().flip(1)

        def continued():
            cache = transformers.StaticCache(config=model.config, max_cache_len=32)
            model(ids, attention_mask=tokens, past_key_values=cache)
            return model(more, attention_mask=torch.cat([tokens, torch.ones_like(more)], 1), past_key_values=cache).logits

        own, ours = self.both(model, continued)
        self.assertLess((own - ours).abs().max().item(), 1e-5)

    def test_a_copy_has_the_mask(self):
        model, ids = self.made("bert", "cpu"), torch.randint(5, 99, (1, LENGTH))
        own = model(ids)[0]
        stof.transformers.use(model, "window(1)")
        made, copied = model(ids)[0], copy.deepcopy(model)
        self.assertFalse(torch.allclose(own, made))
        self.assertTrue(torch.equal(made, copied(ids)[0]))
        stof.transformers.use(copied)
        self.assertTrue(torch.allclose(own, copied(ids)[0], atol=1e-5))
        self.assertTrue(torch.equal(made, model(ids)[0]))

    def test_parts_of_models(self):
        towers = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1, "num_attention_heads": 4}
        model = transformers.CLIPModel(transformers.CLIPConfig(
            text_config={**towers, "vocab_size": 100}, vision_config={**towers, "image_size": 32, "patch_size": 8})).eval()  # fmt: skip
        stof.transformers.use(model, "window(2)")
        self.assertEqual({part.config._attn_implementation for part in (model, model.text_model, model.vision_model)}, {"stof"})

    def test_what_use_refuses_it_leaves(self):
        bloom = transformers.BloomModel(transformers.BloomConfig(hidden_size=64, n_layer=1, n_head=4, vocab_size=100))
        crossed = transformers.BertLMHeadModel(transformers.BertConfig(**SMALL, is_decoder=True, add_cross_attention=True))
        for model, mask, said in (
            (bloom, None, r"BloomModel, of which BloomModel \(itself\) stays at 'eager'; accepted: models all of whose parts take an "),
            (crossed, "all", "a mask for BertLMHeadModel, which has cross-attention; accepted: None, or another model"),
            (self.made("llama", "cpu"), "window", "mask: expected"),
        ):  # fmt: skip
            before = model.config._attn_implementation
            with self.assertRaisesRegex((stof.Unsupported, stof.InvalidArgument), said):
                stof.transformers.use(model, mask)
            self.assertEqual((model.config._attn_implementation, hasattr(model, "stof_mask")), (before, False))

        with self.assertRaisesRegex(stof.InvalidArgument, "^a model of type str; accepted: a transformers.PreTrainedModel$"):
            stof.transformers.use("x")

    def test_a_position_bias_is_refused(self):
        """By use where the parts keep configurations of their own, as in 5.17, else by the first call."""
        config = {"d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 1, "num_heads": 4, "vocab_size": 100}
        model, ids = transformers.T5ForConditionalGeneration(transformers.T5Config(**config)).eval(), torch.randint(5, 99, (1, 4))
        with self.assertRaisesRegex(stof.Unsupported, r"of which T5Stack \(encoder\) stays at 'sdpa'; accepted: |neither adds a position bias"):
            stof.transformers.use(model)
            model(ids, decoder_input_ids=ids)

    def test_cross_attention_is_not_masked(self):
        model = transformers.Blip2QFormerModel(transformers.Blip2QFormerConfig(
            hidden_size=64, num_hidden_layers=1, num_attention_heads=4, intermediate_size=96, encoder_hidden_size=64,
            cross_attention_frequency=1)).eval()  # fmt: skip
        stof.transformers.use(model, "window(2)")
        with self.assertRaisesRegex(stof.Unsupported, "a user's mask for attention of 7 queries to 21 keys of which they are not the last, as in cross"):
            model(torch.randn(2, 7, 64), encoder_hidden_states=torch.randn(2, 21, 64))

    def test_errors(self):
        model = self.made("llama", "cpu")
        model.set_attn_implementation("stof")
        ids = torch.randint(5, 99, (1, 4))
        with self.assertRaisesRegex(stof.Unsupported, r"an attention mask of torch.float32 \[1, 1, 4, 4\]; accepted: bool \[B, H, N, M\]"):
            model(ids, attention_mask=torch.full((1, 1, 4, 4), 0.5))
        made = stof.model_masks.made_mask(1, 4, 4)
        self.assertEqual((made.shape, made.ndim, made.to("meta").stof), ((1, 1, 4, 0), 4, made.stof))
        for use, name in ((lambda: made == 0, "__eq__"), (lambda: 1.0 - made, "__rsub__"), (lambda: torch.cat([made, made]), "cat")):
            with self.assertRaisesRegex(stof.Unsupported, f"a model that computes with the mask that it has from stof, by {name}; accepted: models that "):
                use()
        wide = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**GROUPED, "head_dim": 264})).eval()
        stof.transformers.use(wide)
        with self.assertRaisesRegex(stof.Unsupported, "heads of 264, values of 264; accepted: up to 256, or another attn_implementation"):
            wide(ids)
        with torch.enable_grad(), self.assertRaisesRegex(stof.InvalidArgument, "q requires a gradient"):
            model(ids)
        model.config.attention_dropout = 0.5
        for module in model.train().modules():
            if hasattr(module, "attention_dropout"):
                module.attention_dropout = 0.5
        with self.assertRaisesRegex(stof.Unsupported, "dropout 0.5 in training"):
            model(ids)


if __name__ == "__main__":
    unittest.main()
