#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Longformer-base: a session of STOF beside transformers' own LongformerModel, eager and compiled, in turns: from token ids on the
host to a vector for each text there, the mean of its last hidden states. Weights are random; the hidden states of each, of all
texts, are compared with transformers in fp32 before it is timed.
    longformer.py OUT.json [--sizes 1,4096 8,4096] [--global-tokens 0 1] [--rounds N] [--commit ID] [--device cpu --small]
Needs torch, transformers, and the package stof with its library (PYTHONPATH, STOF_LIBRARY).
"""
from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import models
import stof
import torch
import transformers
from cpu_run import ROOT, Results, environment

TOKENIZER = ROOT / "tests/data/families/longformer/tokenizer.json"  # of texts, which nobody gives
SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128, "attention_window": 16}
WARM_UPS = 3


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


class Transformers:
    """LongformerModel, called as its users call it."""

    def __init__(self, folder, ids, options, dtype, compiled=False):
        self.ids, self.device = torch.tensor(ids), options.device
        self.model = transformers.LongformerModel.from_pretrained(folder, dtype=dtype, add_pooling_layer=False).eval().to(options.device)
        self.call = torch.compile(self.model) if compiled else self.model

    def hidden(self, global_tokens):
        ids = self.ids.to(self.device)
        ones = torch.ones_like(ids)
        is_global = (torch.arange(ids.shape[1], device=self.device) < global_tokens).long().expand_as(ids) if global_tokens else None
        return self.call(ids, attention_mask=ones, global_attention_mask=is_global).last_hidden_state

    def vectors(self, global_tokens):
        return self.hidden(global_tokens).mean(1).float().cpu()


class Stof:
    def __init__(self, folder, ids, options, dtype, global_tokens):
        self.ids = ids
        self.session = stof.Session(folder, options.device, {torch.float16: "f16", torch.bfloat16: "bf16"}[dtype], global_tokens=global_tokens)

    def hidden(self, _):
        return torch.stack([torch.as_tensor(one) for one in self.session.run(self.ids)])

    def vectors(self, _):
        return self.session.embed(self.ids, pooling="mean", batch=len(self.ids))


def contenders(folder, ids, options, dtype, global_tokens):
    """What makes each, so that one that cannot be made leaves the others."""
    every = {"stof": lambda: Stof(folder, ids, options, dtype, global_tokens),
             "transformers": lambda: Transformers(folder, ids, options, dtype),
             "transformers, compiled": lambda: Transformers(folder, ids, options, dtype, compiled=True)}  # fmt: skip
    return {name: make for name, make in every.items() if name not in options.without}


def seconds_of(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


@torch.inference_mode()
def row_of(folder, size, global_tokens, options):
    batch, length = size
    torch.manual_seed(2)
    ids = torch.randint(3, 1000, (batch, length)).tolist()
    dtype = torch.float16 if options.device == "cuda" else torch.bfloat16
    want = Transformers(folder, ids, options, torch.float32).hidden(global_tokens).cpu()
    peers, ready = {}, {}
    for name, make in contenders(folder, ids, options, dtype, global_tokens).items():
        try:
            begin = time.monotonic()
            ready[name] = make()
            peers[name] = {**models.check(ready[name].hidden(global_tokens).cpu(), want, options.device)}
            for _ in range(WARM_UPS):
                ready[name].vectors(global_tokens)
            peers[name]["prepare_s"] = time.monotonic() - begin
        except Exception as error:  # noqa: BLE001 what a peer cannot do is a result, too
            ready.pop(name, None)
            peers[name] = {"failed": models.failure(error)}
    times = {name: [] for name in ready}
    for number in range(options.rounds):
        for name in list(ready) if number % 2 == 0 else reversed(ready):
            times[name].append(1e6 * seconds_of(lambda name=name: ready[name].vectors(global_tokens)))
    for name, taken in times.items():
        peers[name].update(median_us=statistics.median(taken), best_us=min(taken), calls=len(taken))
    return {"texts": batch, "longest": length, "global_tokens": global_tokens, "dtype": str(dtype).removeprefix("torch."), "peers": peers}


def head_of(options):
    packages = {name: version(name) for name in ("torch", "transformers")}
    if options.device == "cpu":
        found = environment(torch.get_num_threads(), packages)
        return {"command": "peers longformer cpu", **found, "commit": options.commit or found["commit"]}
    from attention import environment as gpu_environment  # asks torch and nvidia-smi
    found = gpu_environment()
    found["packages"] = {**found["packages"], **packages}
    return {"command": "peers longformer cuda", "commit": options.commit or "unknown", **found}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--sizes", nargs="+", default=["1,4096", "8,4096"], metavar="B,S")
    parser.add_argument("--global-tokens", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--without", nargs="+", default=[], metavar="NAME", help="contenders that are not asked")
    parser.add_argument("--small", action="store_true", help="a model of two narrow layers in its place: a try of the same steps")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--commit", help="that the library was built from; on the CPU this tree's, if not given")
    options = parser.parse_args()
    results = Results(options.out, head_of(options), resume=False)
    sizes = [tuple(map(int, size.split(","))) for size in options.sizes]
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
