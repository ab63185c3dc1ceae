#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Device time of whole encoders and decoders under masks by torch.compile, by CUDA-graph replay; each output is checked
against fp32 with the same mask, dense.
    masked_models.py OUT.json --stof STOF [--mode default]    needs a GPU, torch, and stof for the masks
Weights are random, biases zero, as those of `stof tune --random`: time does not depend on them.
"""
from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time

import numpy
import timing
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

SIZES = {"bert-base": (12, 768, 12), "bert-large": (24, 1024, 16), "gpt2": (12, 768, 12)}
CASES = [("bert-base", "all", 1, 128), ("bert-base", "all", 8, 512), ("bert-base", "bigbird(64,3,2,3,1)", 8, 2048),
         ("gpt2", "causal & window(32)", 1, 1024), ("gpt2", "causal & window(64)", 8, 2048),
         ("bert-large", "longformer(32,32)", 1, 4096)]  # fmt: skip


class Layer(nn.Module):
    def __init__(self, hidden, heads, pre_norm):
        super().__init__()
        self.heads, self.pre_norm = heads, pre_norm
        self.qkv, self.project = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.expand, self.contract = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
        self.first, self.second = nn.LayerNorm(hidden), nn.LayerNorm(hidden)

    def attend(self, x, attention):
        batch, length, hidden = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, hidden // self.heads).permute(2, 0, 3, 1, 4)
        return self.project(attention(q, k, v).transpose(1, 2).reshape(batch, length, hidden))

    def feed(self, x):
        return self.contract(F.gelu(self.expand(x), approximate="tanh" if self.pre_norm else "none"))

    def forward(self, x, attention):
        if self.pre_norm:
            x = x + self.attend(self.first(x), attention)
            return x + self.feed(self.second(x))
        x = self.first(x + self.attend(x, attention))
        return self.second(x + self.feed(x))


class Model(nn.Module):
    def __init__(self, name, length):
        super().__init__()
        layers, hidden, heads = SIZES[name]
        self.pre_norm = name == "gpt2"
        self.words, self.places = nn.Embedding(1000, hidden), nn.Embedding(length, hidden)
        self.layers = nn.ModuleList(Layer(hidden, heads, self.pre_norm) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids, attention):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        if not self.pre_norm:
            x = self.norm(x)
        for layer in self.layers:
            x = layer(x, attention)
        return self.norm(x) if self.pre_norm else x


def dense_mask(stof, text, length):
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        subprocess.run([stof, "mask", text, "--seq", str(length), "--out", file.name], check=True, capture_output=True)
        return torch.from_numpy(numpy.load(file.name)).cuda()


def measure(stof, name, text, batch, length, mode):
    torch.manual_seed(1)
    model = Model(name, length).eval().cuda()
    ids = torch.randint(0, 1000, (batch, length), device="cuda")
    mask = None if text == "all" else dense_mask(stof, text, length)
    want = model(ids[:1], lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask))
    half = model.half()
    if mask is None:
        attention = F.scaled_dot_product_attention
    else:
        blocks = create_block_mask(lambda b, h, q, k: mask[q, k], None, None, length, length, device="cuda", BLOCK_SIZE=64)
        attention = lambda q, k, v: flex_attention(q, k, v, block_mask=blocks, kernel_options={"BLOCK_M": 64, "BLOCK_N": 64})  # noqa: E731, E501
    begin = time.monotonic()
    call = torch.compile(half, mode=mode, dynamic=False)
    run = lambda: call(ids, attention)  # noqa: E731
    got = run()[:1].float()
    seconds = time.monotonic() - begin
    error = ((got - want).norm() / want.norm()).item()
    if not error < 5e-3:
        raise timing.WrongOutput(f"{name} {text}: relative error {error:.2e}")
    return {"model": name, "mask": text, "texts": batch, "longest": length, "dtype": "f16", "mode": mode,
            "attention": "sdpa" if mask is None else "flex, block 64", "device_us": timing.device_time_us(run),
            "compile_s": seconds, "error": error}  # fmt: skip


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--stof", required=True)
    parser.add_argument("--mode", default="default")
    options = parser.parse_args()
    report = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": []}
    for case in CASES:
        report["rows"].append(measure(options.stof, *case, options.mode))
        print(report["rows"][-1], flush=True)
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
        torch._dynamo.reset()


if __name__ == "__main__":
    main()
