#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""EmbeddingGemma's sizes: a session of STOF beside transformers' Gemma3TextModel with the mean, two dense layers and normalising
behind it, as sentence-transformers has them, eager and compiled, in turns: from token ids on the host to a vector for each text
there. Weights are random; the vectors of each, of all texts, are compared with transformers in fp32 before it is timed.
    embedding_gemma.py OUT.json [--sizes 1,32 32,64] [--rounds N] [--commit ID] [--device cpu --small]
Needs torch, transformers, and the package stof with its library (PYTHONPATH, STOF_LIBRARY).
"""
from __future__ import annotations

import gc
import json
import tempfile
from pathlib import Path

import models
import torch
import transformers
import vectors
from cpu_run import ROOT, Results
from safetensors.torch import load_file, save_file

TOKENIZER = ROOT / "tests/data/families/gemma3/tokenizer.json"  # of texts, which nobody gives
SIZES = {"vocab_size": 262144, "hidden_size": 768, "intermediate_size": 1152, "num_hidden_layers": 24, "num_attention_heads": 3,
         "num_key_value_heads": 1, "head_dim": 256, "query_pre_attn_scalar": 256, "sliding_window": 512, "max_position_embeddings": 2048}  # fmt: skip
SMALL = {**SIZES, "vocab_size": 1000, "hidden_size": 96, "intermediate_size": 96, "num_hidden_layers": 2, "head_dim": 32, "sliding_window": 16}
WIDER = 4  # times the hidden size, between the dense layers


def write_modules(folder: Path, hidden: int) -> None:
    """As sentence-transformers saves them."""
    listed = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense"), ("3_Dense", "Dense"), ("4_Normalize", "Normalize")]
    (folder / "modules.json").write_text(json.dumps([{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{name}"}
                                                     for i, (path, name) in enumerate(listed)]))  # fmt: skip
    for path, _ in listed[1:]:
        (folder / path).mkdir()
    (folder / "1_Pooling/config.json").write_text(json.dumps({"word_embedding_dimension": hidden, "pooling_mode_mean_tokens": True}))
    for path, columns, rows in (("2_Dense", hidden, WIDER * hidden), ("3_Dense", WIDER * hidden, hidden)):
        config = {"in_features": columns, "out_features": rows, "bias": False, "activation_function": "torch.nn.modules.linear.Identity"}
        (folder / path / "config.json").write_text(json.dumps(config))
        save_file({"linear.weight": torch.randn(rows, columns) * columns**-0.5}, folder / path / "model.safetensors")


def checkpoint(folder: Path, small: bool) -> Path:
    torch.manual_seed(1)
    sizes = SMALL if small else SIZES
    config = transformers.Gemma3TextConfig(use_bidirectional_attention=True, **sizes)
    transformers.Gemma3TextModel(config).to(torch.bfloat16).save_pretrained(folder)
    (folder / "tokenizer.json").write_bytes(TOKENIZER.read_bytes())
    write_modules(folder, sizes["hidden_size"])
    return folder


class Transformers(vectors.Transformers):
    def __init__(self, folder, ids, options, dtype, mode=None):
        super().__init__(transformers.AutoModel.from_pretrained(folder, dtype=dtype), ids, options, mode)
        self.dense = [load_file(folder / path / "model.safetensors")["linear.weight"].to(options.device, dtype) for path in ("2_Dense", "3_Dense")]

    def vectors(self):
        pooled = self.hidden().mean(1)
        for weight in self.dense:
            pooled = pooled @ weight.T
        return torch.nn.functional.normalize(pooled, dim=1).float().cpu()


def contenders(folder, ids, options):
    of_transformers = (folder, ids, options, torch.bfloat16)
    return vectors.asked({"stof": lambda: vectors.Stof(folder, ids, options, "bf16", pooling=None),
                          "transformers": lambda: Transformers(*of_transformers),
                          "transformers, compiled": lambda: Transformers(*of_transformers, mode="default")}, options)  # fmt: skip


@torch.inference_mode()
def row_of(folder, size, options):
    batch, length = size
    torch.manual_seed(2)
    ids = torch.randint(3, 700, (batch, length)).tolist()
    want = Transformers(folder, ids, options, torch.float32).vectors()

    def errors_of(one):  # a text's vector is its row; in bf16
        return models.check(torch.as_tensor(one.vectors())[:, None], want[:, None], options.device, 10 * models.BOUND)

    peers, ready = vectors.compared(contenders(folder, ids, options), errors_of, lambda one: one.vectors())
    vectors.time_in_turns(peers, ready, options.rounds, lambda one: one.vectors())
    return {"texts": batch, "longest": length, "dtype": "bfloat16", "peers": peers}


def main():
    options = vectors.parser_of(__doc__, ["1,32", "1,512", "32,64", "32,512"]).parse_args()
    results = Results(options.out, vectors.head_of("embedding_gemma", options), resume=False)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint(Path(folder), options.small)
        for size in vectors.sizes_of(options):
            row = row_of(Path(folder), size, options)
            results.add({"id": f"embedding-gemma {size}", **row})
            print(row, flush=True)
            gc.collect()
    results.write()


if __name__ == "__main__":
    main()
