# SPDX-License-Identifier: Apache-2.0
"""What tests of continuous batching share: small models, requests, and what comes behind them. Exit status 77 where there is no transformers with it."""

import contextlib
import gc
import logging
import random
import sys
import unittest
from unittest import mock

import given  # noqa: F401  (finds the package)

try:
    import torch
    import transformers
    from transformers import ContinuousBatchingConfig, GenerationConfig
    from transformers.generation.continuous_batching import cache as paged_cache
    from transformers.generation.continuous_batching import continuous_api, model_runner
    from transformers.pytorch_utils import Conv1D
except ImportError:
    sys.exit(77)

import stof.transformers

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
SMALL = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
         "vocab_size": 100, "max_position_embeddings": 512, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip
MODELS = {
    "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL)),
    "qwen3": lambda: transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**SMALL)),
    # As many positions as a cache has room for: what is run first, where graphs are recorded, is as long.
    "gpt2": lambda: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(n_embd=64, n_layer=2, n_head=4, n_positions=4096, vocab_size=100, bos_token_id=1, eos_token_id=2)),
    "mistral, a window": lambda: transformers.MistralForCausalLM(transformers.MistralConfig(**SMALL, sliding_window=13)),
    "gemma2, caps, layers of both kinds": lambda: transformers.Gemma2ForCausalLM(
        transformers.Gemma2Config(**SMALL, sliding_window=13, query_pre_attn_scalar=1, attn_logit_softcapping=1.0)),
    "gpt-oss, sinks": lambda: transformers.GptOssForCausalLM(
        transformers.GptOssConfig(**SMALL, sliding_window=13, num_local_experts=4, num_experts_per_tok=2)),
}  # fmt: skip
UNCAPPED = [name for name in MODELS if "caps" not in name]  # the paged attentions of transformers leave a cap out
FULL = ["llama", "qwen3", "gpt2"]
LENGTHS = [3, 17, 40, 9, 33, 1, 70, 16, 15, 21, 32, 5]
TOKENS = 12
# Intervals of padding ask for graphs where there is a GPU, also of models on the CPU.
TIGHT = {"block_size": 16, "num_blocks": 24, "max_batch_tokens": 32, "use_cuda_graph": False}


def texts(*lengths, seed=1):
    drawn = random.Random(seed)
    return [[drawn.randrange(5, 99) for _ in range(length)] for length in lengths or LENGTHS]


def made(name, device="cpu", implementation="stof", seed=0):
    torch.manual_seed(seed)
    model = MODELS[name]().eval().to(device)
    for module in model.modules():  # weights of 0.02 leave attention without a say
        if isinstance(module, (torch.nn.Linear, torch.nn.Embedding, Conv1D)):
            module.weight.data *= 5
        if hasattr(module, "sinks"):
            module.sinks.data.normal_()
    model.set_attn_implementation(implementation)
    return model


def in_a_batch(model, prompts, tokens=TOKENS, warmup=True, **config):
    """What comes behind each prompt."""
    asked = GenerationConfig(max_new_tokens=tokens, do_sample=False, eos_token_id=-1, pad_token_id=0)
    config = ContinuousBatchingConfig(**{**TIGHT, **config})
    done = model.generate_batch(prompts, generation_config=asked, continuous_batching_config=config, warmup=warmup)
    for one in done.values():
        if one.error is not None:
            raise RuntimeError(one.error)
    return [one.generated_tokens for one in done.values()]


def alone(model, prompts, tokens=TOKENS):
    """The same, by generate."""
    model.generation_config.eos_token_id = None
    ids = [torch.tensor([prompt], device=model.device) for prompt in prompts]
    asked = {"max_new_tokens": tokens, "do_sample": False, "pad_token_id": 0}
    return [model.generate(one, attention_mask=torch.ones_like(one), **asked)[0, one.shape[1] :].tolist() for one in ids]


@contextlib.contextmanager
def by(function, name="paged|eager"):
    """Has `function` in place of the attention of that name."""
    before = transformers.AttentionInterface._global_mapping[name]
    transformers.AttentionInterface.register(name, function)
    try:
        yield
    finally:
        transformers.AttentionInterface.register(name, before)


class ContinuousBatching(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        transformers.logging.set_verbosity_error()
        logging.getLogger("ContinuousBatchingLogger").setLevel(logging.CRITICAL)
        stof.transformers.register()
        gc.freeze()  # transformers collects behind each call, which is most of its time here
        cls.addClassCleanup(gc.unfreeze)

    def setUp(self):
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        self.addCleanup(torch.set_grad_enabled, before)
        # How much memory a machine has is asked of psutil, which need not be there.
        self.patch(paged_cache.PagedAttentionMemoryHandler, "get_available_memory", lambda self: 1 << 30)
        join = continuous_api.ContinuousBatchingManager.join  # which waits until its thread looks for requests again
        self.patch(continuous_api.ContinuousBatchingManager, "join", lambda self, *given: self._has_new_requests.set() or join(self, *given))

    def patch(self, of, name, by):
        patch = mock.patch.object(of, name, by)
        patch.start()
        self.addCleanup(patch.stop)

    def with_padding(self):
        """As where graphs are recorded."""
        before = model_runner.ModelRunner.__init__

        def padding(runner, *given, **named):
            before(runner, *given, **named)
            runner.pad_inputs = True

        self.patch(model_runner.ModelRunner, "__init__", padding)

    def counted(self, of, name):
        calls, before = [], getattr(of, name)

        def count(*given, **named):
            result = before(*given, **named)
            calls.append(result)
            return result

        self.patch(of, name, count)
        return calls
