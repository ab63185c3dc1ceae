#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Longformer-base: a session of STOF beside transformers' own LongformerModel, eager and compiled, in turns: from token ids on the
host to a vector for each text there, the mean of its last hidden states. Weights are random; the hidden states of each, of all
texts, are compared with transformers in fp32 before it is timed.
    longformer.py OUT.json [--sizes 1,4096 8,4096] [--global-tokens 0 1] [--rounds N] [--commit ID] [--device cpu --small]
Needs torch, transformers, and the package stof with its library (PYTHONPATH, STOF_LIBRARY).
"""
from __future__ import annotations

import gc
import tempfile
from pathlib import Path

import models
import torch
import transformers
import vectors
from cpu_run import ROOT, Results

TOKENIZER = ROOT / "tests/data/families/longformer/tokenizer.json"  # of texts, which nobody gives
SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128, "attention_window": 16}


def checkpoint(folder: Path, longest: int, small: bool) -> Path:
    """Of Longformer-base's sizes, but for a small vocabulary, in which nothing is multiplied."""
    torch.manual_seed(1)
    sizes = SMALL if small else {}
    config = transformers.LongformerConfig(vocab_size=1000, max_position_embeddings=longest + 2, type_vocab_size=1, layer_norm_eps=1e-5,
                                           pad_token_id=1, bos_token_id=0, eos_token_id=2, sep_token_id=2, **sizes)  # fmt: skip
    model = transformers.LongformerModel(config, add_pooling_layer=False)
    models.randomise(model)
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_bytes(TOKENIZER.read_bytes())
    return folder


class Transformers(vectors.Transformers):
    def __init__(self, folder, ids, options, dtype, global_tokens, mode=None):
        super().__init__(transformers.LongformerModel.from_pretrained(folder, dtype=dtype, add_pooling_layer=False), ids, options, mode)
        self.global_tokens = global_tokens

    def keywords(self, ids):
        is_global = torch.arange(ids.shape[1], device=self.device) < self.global_tokens
        return {"global_attention_mask": is_global.long().expand_as(ids) if self.global_tokens else None}


def contenders(folder, ids, options, dtype, global_tokens):
    of_transformers = (folder, ids, options, vectors.DTYPES[dtype], global_tokens)
    return vectors.asked({"stof": lambda: vectors.Stof(folder, ids, options, dtype, global_tokens=global_tokens),
                          "transformers": lambda: Transformers(*of_transformers),
                          "transformers, compiled": lambda: Transformers(*of_transformers, mode="default")}, options)  # fmt: skip


@torch.inference_mode()
def row_of(folder, size, global_tokens, options):
    batch, length = size
    torch.manual_seed(2)
    ids = torch.randint(3, 1000, (batch, length)).tolist()
    dtype = "f16" if options.device == "cuda" else "bf16"
    want = Transformers(folder, ids, options, torch.float32, global_tokens).hidden().cpu()
    peers, ready = vectors.compared(contenders(folder, ids, options, dtype, global_tokens),
                                    lambda one: models.check(one.hidden().cpu(), want, options.device), lambda one: one.vectors())  # fmt: skip
    vectors.time_in_turns(peers, ready, options.rounds, lambda one: one.vectors())
    named = str(vectors.DTYPES[dtype]).removeprefix("torch.")
    return {"texts": batch, "longest": length, "global_tokens": global_tokens, "dtype": named, "peers": peers}


def main():
    parser = vectors.parser_of(__doc__, ["1,4096", "8,4096"])
    parser.add_argument("--global-tokens", nargs="+", type=int, default=[0, 1])
    options = parser.parse_args()
    results = Results(options.out, vectors.head_of("longformer", options), resume=False)
    sizes = vectors.sizes_of(options)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint(Path(folder), max(length for _, length in sizes), options.small)
        for size in sizes:
            for global_tokens in options.global_tokens:
                row = row_of(folder, size, global_tokens, options)
                results.add({"id": f"longformer-base {size} {global_tokens} global", **row})
                print(row, flush=True)
                gc.collect()
    results.write()


if __name__ == "__main__":
    main()
