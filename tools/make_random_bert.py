#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A checkpoint of BERT-base's size with random weights in fp16, and the tokenizer of another one: for timing what has to
begin with a file, as the first answer of a new process.

usage: make_random_bert.py TOKENIZER_FOLDER OUT_FOLDER [LAYERS]    needs numpy
"""

import json
import shutil
import sys
from pathlib import Path

import numpy

HIDDEN, HEADS, INNER, POSITIONS = 768, 12, 3072, 512


def shapes_of(layers, vocabulary):
    shapes = {"embeddings.word_embeddings.weight": (vocabulary, HIDDEN), "embeddings.position_embeddings.weight": (POSITIONS, HIDDEN),
              "embeddings.token_type_embeddings.weight": (2, HIDDEN), "embeddings.LayerNorm.weight": (HIDDEN,),
              "embeddings.LayerNorm.bias": (HIDDEN,)}  # fmt: skip
    for layer in range(layers):
        for name, out, inner in (("attention.self.query", HIDDEN, HIDDEN), ("attention.self.key", HIDDEN, HIDDEN),
                                 ("attention.self.value", HIDDEN, HIDDEN), ("attention.output.dense", HIDDEN, HIDDEN),
                                 ("intermediate.dense", INNER, HIDDEN), ("output.dense", HIDDEN, INNER)):  # fmt: skip
            shapes[f"encoder.layer.{layer}.{name}.weight"] = (out, inner)
            shapes[f"encoder.layer.{layer}.{name}.bias"] = (out,)
        for norm in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes[f"encoder.layer.{layer}.{norm}.weight"] = shapes[f"encoder.layer.{layer}.{norm}.bias"] = (HIDDEN,)
    return shapes


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, values in tensors.items():
        header[name] = {"dtype": "F16", "shape": list(values.shape), "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for values in tensors.values():
            file.write(values.tobytes())


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__.strip())
    source, folder = Path(sys.argv[1]), Path(sys.argv[2])
    layers = int(sys.argv[3]) if len(sys.argv) == 4 else 12
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = len((source / "vocab.txt").read_text(encoding="utf-8").splitlines())
    for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        if (source / name).exists():
            shutil.copy(source / name, folder / name)
    config = {"model_type": "bert", "architectures": ["BertModel"], "hidden_size": HIDDEN, "num_hidden_layers": layers,
              "num_attention_heads": HEADS, "intermediate_size": INNER, "max_position_embeddings": POSITIONS,
              "vocab_size": vocabulary, "type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-12,
              "pad_token_id": 0}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    random = numpy.random.default_rng(1)
    tensors = {}
    for name, shape in shapes_of(layers, vocabulary).items():
        values = random.standard_normal(shape, dtype=numpy.float32) * 0.02 if len(shape) == 2 else numpy.zeros(shape)
        tensors[name] = (values + 1 if name.endswith("LayerNorm.weight") else values).astype(numpy.float16)
    write_safetensors(folder / "model.safetensors", tensors)


if __name__ == "__main__":
    main()
