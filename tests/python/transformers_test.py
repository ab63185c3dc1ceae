#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models of transformers by STOF's attention and by their own, on the CPU and on a GPU where there is one.

usage: transformers_test.py LIBSTOF.SO    exit status 77 where there is no transformers
"""

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
    "gemma2, caps": lambda: transformers.Gemma2ForCausalLM(transformers.Gemma2Config(**GROUPED, sliding_window=8)),
    "gpt-oss, sinks": lambda: transformers.GptOssForCausalLM(
        transformers.GptOssConfig(**GROUPED, sliding_window=8, num_local_experts=4, num_experts_per_tok=2)),
    "llama4, chunks": lambda: transformers.Llama4ForCausalLM(
        transformers.Llama4TextConfig(**GROUPED, attention_chunk_size=8, num_local_experts=2, intermediate_size_mlp=64)),
}  # fmt: skip
DECODERS = [name for name in MODELS if "bert" not in name and "llama4" not in name]  # which 5.17 cannot generate with
TOKENS, LENGTH = 3, 21


def left_padding():
    mask = torch.ones(TOKENS, LENGTH, dtype=torch.long)
    mask[1, :6], mask[2, :1] = 0, 0
    return mask


class Models(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        transformers.logging.set_verbosity_error()
        stof.transformers.register()

    def setUp(self):
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        self.addCleanup(torch.set_grad_enabled, before)

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
        inside = torch.ones_like(left_padding())
        inside[1, 4:9] = 0
        for device in DEVICES:
            for name in MODELS:
                model = self.made(name, device)
                for mask in (None, left_padding(), left_padding().flip(1), inside):
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
        for name, users in (("llama", None), ("llama", "window(4) | sink(2)"), ("mistral, a window", None)):
            for mask in (torch.ones_like(left_padding()), left_padding()):
                for cache in ("dynamic", "static"):
                    with self.subTest(f"{name} {users} {cache} padded {not mask.all()}"):
                        model = self.made(name, "cpu")
                        stof.transformers.use(model, users)
                        stof.clear_plans()
                        model.generate(ids, attention_mask=mask, min_new_tokens=20, max_new_tokens=20, do_sample=False,
                                       cache_implementation=cache, disable_compile=True)  # fmt: skip
                        self.assertEqual(planned.cache_info().misses, 2)  # of the prompt, and of up to 256 keys

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

    def test_masks_of_the_user(self):
        ids = torch.randint(5, 99, (TOKENS, LENGTH))
        i = torch.arange(LENGTH)
        allowed = ((i[:, None] - i).abs() <= 4) | (i[:, None] == 0) | (i == 0)
        for name, of_model in (("bert", torch.ones_like(allowed)), ("llama", i[:, None] >= i)):
            model = self.made(name, "cpu")
            for tokens in (None, left_padding().flip(1)):
                pairs = (allowed & of_model).expand(TOKENS, 1, -1, -1) & (True if tokens is None else tokens.bool()[:, None, None])
                model.set_attn_implementation("sdpa")
                own = model(ids, attention_mask=pairs)[0]
                stof.transformers.use(model, "window(4) | global(1)")
                seen = slice(None) if tokens is None else tokens.bool()
                self.assertLess((own - model(ids, attention_mask=tokens)[0])[seen].abs().max().item(), 1e-5)
            model.set_attn_implementation("sdpa")
            own = model(ids)[0]
            stof.transformers.use(model)
            self.assertLess((own - model(ids)[0]).abs().max().item(), 1e-5)

    def test_errors(self):
        model = self.made("llama", "cpu")
        model.set_attn_implementation("stof")
        ids = torch.randint(5, 99, (1, 4))
        with self.assertRaisesRegex(stof.Unsupported, r"an attention mask of torch.float32 \[1, 1, 4, 4\]; accepted: bool \[B, H, N, M\]"):
            model(ids, attention_mask=torch.zeros(1, 1, 4, 4))
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
