#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes checkpoints of a few layers with random weights, one of each family, and what transformers computes with them
in fp32, a text at a time: what tests/runtime/families_test.cpp compares with. The tokenizers are trained on data/.

usage: make_small_models.py OUT [FAMILY...]     writes OUT/FAMILY/{config.json, tokenizer.json, weights, hidden.npy, ...}, OUT/texts.txt
needs: torch, transformers, tokenizers, safetensors, numpy
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import tokenizers
import torch
import transformers
from nasty_strings import REAL
from safetensors.torch import save_file
from small_models import (
    distilbert, eurobert, gemma2, gemma3, gpt2, llama, llama_with_biases, longformer, mistral, modernbert,
    modernbert_with_biases, mpnet, nomic, phi3, phi4, qwen2, qwen3, roberta, t5, t5_gated, xlm_roberta)  # fmt: skip
from small_tokenizers import (
    eurobert_tokenizer, gemma_tokenizer, gpt2_tokenizer, llama3_tokenizer, mistral_tokenizer, modernbert_tokenizer, mpnet_tokenizer, qwen_tokenizer,
    roberta_tokenizer, t5_converted_tokenizer, t5_tokenizer, wordpiece, xlm_roberta_tokenizer)  # fmt: skip

GLOBAL_TOKENS = 3  # of Longformer, more than the shortest texts have
GENERATED = 12  # tokens that decoders put behind each text, always the likeliest one
TEXTS = [
    "A storm is coming; don't leave the harbour.", "It's 20:45, and we'll be late.", "x", "",
    "Two  spaces,   three; a tab\there and a trailing space ", REAL[0], REAL[3], REAL[12], REAL[26], REAL[35],
    "<mask> and <pad> in the  <mask> middle<pad>", "[MASK] and [PAD] [MASK]", "end<|endoftext|>begin",
    "The bread rises slowly in a cold kitchen, " * 4,
]  # fmt: skip


def randomise(model, spread, table=1):
    """Large enough for attention to choose, and for every bias and norm to matter. A decoder of one table repeats its
    last token where that is large beside what layers add. T5 divides no scores: its queries are as much smaller."""
    tables = ("embed", "wte", "wpe", "shared", "relative_attention_bias")
    for name, parameter in model.named_parameters():
        values = torch.randn(parameter.shape)
        if "norm" in name.lower() or ".ln_" in name:
            from_one = model.config.model_type in ("gemma2", "gemma3_text")  # its scales are stored so
            parameter.data = 0.2 * values + (1 if name.endswith("weight") and not from_one else 0)
        elif parameter.dim() == 1:
            parameter.data = 0.2 * values
        else:
            parameter.data = (table if any(part in name for part in tables) else spread) * values
        if "SelfAttention.q." in name:
            parameter.data *= model.config.d_kv**-0.5


def state_of(model):
    """What a checkpoint holds: a tied head has no tensor of its own, nor have stacks that share their table."""
    kept = {}
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and not model.config.tie_word_embeddings:
            kept[name] = tensor.clone()
        if name in ("lm_head.weight", "lm_head.decoder.weight", "lm_head.decoder.bias", "vocab_projector.weight",
                    "decoder.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"):
            continue
        kept[name] = tensor.clone()
    return kept


def write_one_file(folder, model, dtype):
    save_file({name: tensor.to(dtype) for name, tensor in state_of(model).items()}, folder / "model.safetensors",
              metadata={"format": "pt"})  # fmt: skip


def write_shards(folder, model, count=3):
    """Of three dtypes in turn, with a buffer that nothing reads, as the first checkpoints of GPT-2 have it."""
    tensors = state_of(model)
    dtypes = [torch.float32, torch.float16, torch.bfloat16]
    names = [f"model-{i + 1:05}-of-{count:05}.safetensors" for i in range(count)]
    shards, index = [{} for _ in names], {}
    for i, (name, tensor) in enumerate(tensors.items()):
        shards[i % count][name] = tensor.to(dtypes[i // 2 % 3])
        index[name] = names[i % count]
    shards[0]["transformer.h.0.attn.bias"] = torch.ones(1, 1, 8, 8, dtype=torch.uint8).tril()
    index["transformer.h.0.attn.bias"] = names[0]
    for name, shard in zip(names, shards):
        save_file(shard, folder / name, metadata={"format": "pt"})
    total = sum(t.numel() * t.element_size() for shard in shards for t in shard.values())
    text = json.dumps({"metadata": {"total_size": total}, "weight_map": dict(sorted(index.items()))}, indent=1)
    (folder / "model.safetensors.index.json").write_text(text + "\n")


def write_as_published(folder, model):
    """By names that transformers has not, and makes its own of when it reads them."""
    model.to(torch.float16).save_pretrained(folder)
    model.to(torch.float32)


def auto_encoder(folder):
    """AutoModel wants a text for the decoder of T5, too."""
    is_t5 = json.loads((folder / "config.json").read_text())["model_type"] == "t5"
    return transformers.AutoModelForTextEncoding if is_t5 else transformers.AutoModel


def run(folder, tokenizer, with_logits):
    auto = transformers.AutoModelForCausalLM if with_logits else auto_encoder(folder)
    model = auto.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    hidden, logits, lengths, generated = [], [], [], []
    last = []  # what the final norm gives, which is not always among the hidden states
    base = model.base_model if with_logits else model
    base.register_forward_hook(lambda _, __, out: last.append(out.last_hidden_state))
    for text in TEXTS:
        ids = tokenizer.encode(text).ids
        lengths.append(len(ids))
        if not ids:
            continue
        out = model(torch.tensor([ids]))
        hidden.append(last.pop()[0].numpy())
        if with_logits:
            logits.append(out.logits[0, -1].numpy())
            # Nothing ends them, so that all are equally long. With a cache transformers 5.17 forgets all tokens but the last
            # where Phi-3's angles come to be those of longer texts.
            more = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)), do_sample=False,
                                  max_new_tokens=GENERATED, eos_token_id=None, pad_token_id=0,
                                  use_cache=model.config.model_type != "phi3")  # fmt: skip
            generated.append(more[0, len(ids):].numpy())
    np.save(folder / "hidden.npy", np.concatenate(hidden).astype("<f4"))
    np.save(folder / "lengths.npy", np.array(lengths, "<i4"))
    if with_logits:
        np.save(folder / "logits.npy", np.stack(logits).astype("<f4"))  # of each text's last token
        np.save(folder / "generated.npy", np.stack(generated).astype("<i4"))


def run_on_both_sides(folder, tokenizer):
    """What a decoder computes whose tokens see what is behind them, too, as models of embeddings have it."""
    config = transformers.AutoConfig.from_pretrained(folder)
    config.is_causal = False
    model = transformers.AutoModel.from_pretrained(folder, config=config, dtype=torch.float32, attn_implementation="eager")
    hidden = model.eval()(torch.tensor([tokenizer.encode(TEXTS[-1]).ids])).last_hidden_state
    np.save(folder / "both_sides.npy", hidden[0].numpy().astype("<f4"))


def run_in_both_directions(folder, tokenizer):
    """What Gemma 3 computes as a model of embeddings, whose windows reach to both sides."""
    config = json.loads((folder / "config.json").read_text())
    with tempfile.TemporaryDirectory() as changed:
        (Path(changed) / "config.json").write_text(json.dumps({**config, "use_bidirectional_attention": True}))
        (Path(changed) / "model.safetensors").symlink_to((folder / "model.safetensors").resolve())
        model = transformers.AutoModel.from_pretrained(changed, dtype=torch.float32, attn_implementation="eager")
        hidden = model.eval()(torch.tensor([tokenizer.encode(TEXTS[-1]).ids])).last_hidden_state
    np.save(folder / "both_directions.npy", hidden[0].numpy().astype("<f4"))


def run_with_global_tokens(folder, tokenizer):
    """What Longformer computes where the first tokens of each text are global."""
    model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    hidden = []
    for text in TEXTS:
        ids = torch.tensor([tokenizer.encode(text).ids])
        is_global = (torch.arange(ids.shape[1])[None] < GLOBAL_TOKENS).long()
        hidden.append(model(ids, torch.ones_like(ids), is_global).last_hidden_state[0].numpy())
    np.save(folder / "global_tokens.npy", np.concatenate(hidden).astype("<f4"))


def run_far(folder, tokenizer):
    """What is computed of the last text four times, whose ends are farther apart than buckets of distances tell."""
    model = auto_encoder(folder).from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    hidden = model.eval()(torch.tensor([tokenizer.encode(TEXTS[-1] * 4).ids])).last_hidden_state
    np.save(folder / "far.npy", hidden[0].numpy().astype("<f4"))


FAMILIES = {
    "roberta": (roberta, roberta_tokenizer, lambda folder, model: write_one_file(folder, model, torch.float32)),
    "xlm_roberta": (xlm_roberta, xlm_roberta_tokenizer, lambda folder, model: write_one_file(folder, model, torch.float16)),
    "distilbert": (distilbert, wordpiece, lambda folder, model: write_one_file(folder, model, torch.float16)),
    "longformer": (longformer, roberta_tokenizer, lambda folder, model: write_one_file(folder, model, torch.bfloat16)),
    "mpnet": (mpnet, mpnet_tokenizer, lambda folder, model: write_one_file(folder, model, torch.float32)),
    "t5": (t5, t5_tokenizer, lambda folder, model: write_one_file(folder, model, torch.float16)),
    "t5_gated": (t5_gated, t5_converted_tokenizer, lambda folder, model: write_one_file(folder, model, torch.bfloat16)),
    "gpt2": (gpt2, gpt2_tokenizer, write_shards),
    "modernbert": (modernbert, modernbert_tokenizer, lambda folder, model: write_one_file(folder, model, torch.float16)),
    "modernbert_with_biases": (modernbert_with_biases, modernbert_tokenizer,
                               lambda folder, model: write_one_file(folder, model, torch.bfloat16)),
    "llama": (llama, llama3_tokenizer, lambda folder, model: write_one_file(folder, model, torch.bfloat16)),
    "llama_with_biases": (llama_with_biases, mistral_tokenizer,
                          lambda folder, model: write_one_file(folder, model, torch.float16)),
    "mistral": (mistral, mistral_tokenizer, lambda folder, model: write_one_file(folder, model, torch.bfloat16)),
    "qwen2": (qwen2, qwen_tokenizer, lambda folder, model: write_one_file(folder, model, torch.bfloat16)),
    "qwen3": (qwen3, qwen_tokenizer, lambda folder, model: write_one_file(folder, model, torch.bfloat16)),
    "phi3": (phi3, mistral_tokenizer, lambda folder, model: write_one_file(folder, model, torch.bfloat16)),
    "phi4": (phi4, qwen_tokenizer, lambda folder, model: write_one_file(folder, model, torch.bfloat16)),
    "gemma2": (gemma2, gemma_tokenizer, lambda folder, model: write_one_file(folder, model, torch.bfloat16)),
    "eurobert": (eurobert, eurobert_tokenizer, lambda folder, model: write_one_file(folder, model, torch.bfloat16)),
    "nomic": (nomic, wordpiece, write_as_published),
    "gemma3": (gemma3, gemma_tokenizer, lambda folder, model: write_one_file(folder, model, torch.bfloat16)),
}  # fmt: skip
WITH_BUCKETS = ("mpnet", "t5", "t5_gated")  # of distances between tokens, for a bias of scores
DECODERS = ("gpt2", "llama", "llama_with_biases", "mistral", "qwen2", "qwen3", "phi3", "phi4", "gemma2", "gemma3")


def write_origin(file, named):
    """Of all families, and of those that were made again by other versions."""
    made = {"made_by": "tools/make_small_models.py", "torch": torch.__version__,
            "transformers": transformers.__version__, "tokenizers": tokenizers.__version__}  # fmt: skip
    if named:
        made = {**json.loads(file.read_text()), **{family: made for family in named}}
    file.write_text(json.dumps(made, indent=2) + "\n")


def main():
    out, named = Path(sys.argv[1]), sys.argv[2:]
    out.mkdir(parents=True, exist_ok=True)
    (out / "texts.txt").write_text("".join(text + "\n" for text in TEXTS), encoding="utf-8")
    with torch.no_grad():
        for family in named or FAMILIES:
            build, make_tokenizer, write = FAMILIES[family]
            torch.manual_seed(20260101)
            folder = out / family
            folder.mkdir(exist_ok=True)
            tokenizer = make_tokenizer()
            tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
            model = build(tokenizer.get_vocab_size())
            # A gate squares what comes in: rounding in fp32 alone would take most of the bound.
            randomise(model, spread=0.18 if family not in ("roberta", "distilbert", "longformer", "mpnet", "gpt2") else 0.25,
                      table=0.1 if family.startswith(("qwen", "gemma", "phi4")) else 1)  # fmt: skip
            model.config.save_pretrained(folder)
            config = json.loads((folder / "config.json").read_text())
            config["architectures"] = [type(model).__name__]
            if family == "t5_gated":
                config["tie_word_embeddings"] = False  # as published; transformers 5 writes true for every T5
            (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
            write(folder, model)
            run(folder, tokenizer, with_logits=family in DECODERS)
            if family in WITH_BUCKETS:
                run_far(folder, tokenizer)
            if family in DECODERS:
                run_on_both_sides(folder, tokenizer)
            if family == "gemma3":
                run_in_both_directions(folder, tokenizer)
            if family == "longformer":
                run_with_global_tokens(folder, tokenizer)
    write_origin(out / "origin.json", named)


if __name__ == "__main__":
    main()
