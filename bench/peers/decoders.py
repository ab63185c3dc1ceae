# SPDX-License-Identifier: Apache-2.0
"""What decoders go on behind: checkpoints with random weights, which transformers makes, and texts of so many tokens."""
from __future__ import annotations

import json
import shutil
from pathlib import Path

from cpu_run import ROOT

FAMILIES = ROOT / "tests/data/families"  # whose tokenizers are small; ids beyond their own stand for no text
LAYER = {"hidden_act": "silu", "tie_word_embeddings": True, "rms_norm_eps": 1e-6}
SIZES = {
    "Qwen3-0.6B": {"vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "head_dim": 128,
                   "num_attention_heads": 16, "num_key_value_heads": 8, "max_position_embeddings": 40960, **LAYER},
    "Qwen3-8B": {"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36, "head_dim": 128,
                 "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 40960, **LAYER, "tie_word_embeddings": False},
    "Gemma3-1B": {"vocab_size": 262144, "hidden_size": 1152, "intermediate_size": 6912, "num_hidden_layers": 26, "head_dim": 256,
                  "num_attention_heads": 4, "num_key_value_heads": 1, "max_position_embeddings": 32768, "sliding_window": 512,
                  "query_pre_attn_scalar": 256, "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": True, "rms_norm_eps": 1e-6},
    "Gemma2-2B": {"vocab_size": 256000, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26, "head_dim": 256,
                  "num_attention_heads": 8, "num_key_value_heads": 4, "max_position_embeddings": 8192, "sliding_window": 4096,
                  "query_pre_attn_scalar": 256, "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": True, "rms_norm_eps": 1e-6},
    "Phi3-mini": {"vocab_size": 32064, "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32, "num_attention_heads": 32,
                  "num_key_value_heads": 32, "max_position_embeddings": 4096, "sliding_window": 2047, **LAYER, "rms_norm_eps": 1e-5,
                  "tie_word_embeddings": False},
    "small": {"vocab_size": 1000, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "head_dim": 32,
              "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 2048, **LAYER},
}  # fmt: skip
THETA = 1e6
# With transformers' own 0.02 for all weights, a decoder says one token for ever, whatever is before it: embeddings are lost beside
# what layers add, which hardly differs from token to token. Much larger ones would be said again, as scores are of the same matrix.
EMBEDDING_STD = 0.08  # where products keep the size of what goes into them


def family_of(size: str) -> str:
    """As the folders of tests/data/families are named."""
    name = size.split("-")[0].lower()
    return name if name in ("gemma2", "gemma3", "phi3") else "qwen3"


def caps_scores(size: str) -> bool:
    """Of transformers' attentions "eager" applies the cap, and "sdpa" leaves it out."""
    return family_of(size) == "gemma2"


def decoder_of(size: str, std: float):
    """Of the family that the name begins with, a Qwen3 where none is."""
    import transformers
    known = {"gemma2": (transformers.Gemma2ForCausalLM, transformers.Gemma2Config),
             "gemma3": (transformers.Gemma3ForCausalLM, transformers.Gemma3TextConfig),
             "phi3": (transformers.Phi3ForCausalLM, transformers.Phi3Config)}  # fmt: skip
    if family_of(size) in known:
        model, config = known[family_of(size)]
        return model(config(initializer_range=std, **SIZES[size]))
    rope = {"rope_type": "default", "rope_theta": THETA}
    return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(rope_parameters=rope, initializer_range=std, **SIZES[size]))


def random_decoder(folder: Path, size: str) -> Path:
    """A checkpoint of this size in bf16, made unless the folder has it."""
    if not (folder / "model.safetensors").exists():
        import torch
        torch.manual_seed(0)
        std = SIZES[size]["hidden_size"] ** -0.5
        with torch.device("cuda" if torch.cuda.is_available() else "cpu"):  # billions of numbers by chance
            model = decoder_of(size, std)
        model.get_input_embeddings().weight.data *= EMBEDDING_STD / std
        model.to(torch.bfloat16).save_pretrained(folder, max_shard_size="100GB")  # one file
        shutil.copy(FAMILIES / family_of(size) / "tokenizer.json", folder)
    found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    for key, wanted in SIZES[size].items():
        if found.get(key) != wanted:
            raise SystemExit(f"{folder}: {key} {found.get(key)}; {size} has {wanted}; accepted: the same, or a folder without a model")
    return folder


def beginning_of(text: str, tokens: int, count) -> str | None:
    """What of a text is so many tokens, by `count`; None where it is shorter, or a character more is two tokens more."""
    end = tokens  # a token is one character or more
    while end <= len(text):
        missing = tokens - count(text[:end])
        if missing < 0:
            return None
        if missing == 0 and not text[end - 1].isspace():
            return text[:end]
        end += max(1, missing)
    return None


def prompts_of(sentences: list, texts: int, tokens: int, count) -> list:
    """So many texts of so many tokens each, no two with the same beginning."""
    found: list = []
    for start in range(len(sentences)):
        if len(found) == texts:
            break
        text = beginning_of(" ".join(sentences[start:] + sentences[:start]), tokens, count)
        if text is not None and text not in found:
            found.append(text)
    if len(found) < texts:
        raise SystemExit(f"{len(found)} texts of {tokens} tokens in {len(sentences)} sentences; wanted: {texts}")
    return found
