# SPDX-License-Identifier: Apache-2.0
"""Writes a BERT of a few kilobytes with a vocabulary of a few words, and bad variants of it."""

import json
import random
import struct
from pathlib import Path

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "world", "a"]
CONFIG = {
    "architectures": ["BertModel"], "model_type": "bert", "vocab_size": len(VOCABULARY), "hidden_size": 8,
    "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 32,
    "type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-12,
}  # fmt: skip


def tensors(vocabulary=len(VOCABULARY)):
    """{name: (dtype, shape)} of the one layer."""
    names = {"embeddings.word_embeddings.weight": [vocabulary, 8], "embeddings.position_embeddings.weight": [32, 8],
             "embeddings.token_type_embeddings.weight": [2, 8]}  # fmt: skip
    layer = "encoder.layer.0."
    linears = {"attention.self.query": [8, 8], "attention.self.key": [8, 8], "attention.self.value": [8, 8],
               "attention.output.dense": [8, 8], "intermediate.dense": [16, 8], "output.dense": [8, 16]}  # fmt: skip
    for name, shape in linears.items():
        names[layer + name + ".weight"], names[layer + name + ".bias"] = shape, shape[:1]
    for name in ("embeddings.LayerNorm", layer + "attention.output.LayerNorm", layer + "output.LayerNorm"):
        names[name + ".weight"], names[name + ".bias"] = [8], [8]
    return {name: ("F32", shape) for name, shape in names.items()}


def write(folder, config=None, weights=None, vocabulary=None):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG | (config or {})))
    (folder / "vocab.txt").write_text("\n".join(vocabulary or VOCABULARY) + "\n")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    write_safetensors(folder / "model.safetensors", weights or tensors())
    return folder


def write_safetensors(file, weights):
    rng, header, data = random.Random(1), {}, b""
    for name, (dtype, shape) in weights.items():
        count = 1
        for size in shape:
            count *= size
        if dtype == "F32":
            piece = struct.pack(f"<{count}f", *(rng.uniform(-0.5, 0.5) for _ in range(count)))
        else:
            piece = struct.pack(f"<{count}q", *([1] * count))
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + data)
