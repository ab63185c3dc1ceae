#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ModernBERT-base by transformers under torch.compile: what `stof bench model --part more` is compared with, by the measures
of models.py. Weights are random; each output is checked against fp32 eager.
    modernbert.py OUT.json [--resume] [--compile-seconds N] [--sizes 1,512 8,2048 1,8192]
Each combination of size, attention and mode is a process of its own. All compile side by side; their times are taken one after
the other, with nothing else running, so `compile_s` is that of a busy machine.
Needs torch, transformers and a GPU (--device cpu: a try of the same steps).
"""
from __future__ import annotations

import argparse
import json

import models
import torch
import torch.nn.functional as F
from side_by_side import Contender, in_turn, wait_for_turn
from torch import nn
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

NAME = "modernbert-base"
SIZES = ["1,512", "8,2048", "1,8192"]  # cli/bench_grid.cpp has the same
REACH = 64  # keys to either side: local_attention 128
ATTENTIONS = ["sdpa with mask", "flex, block 64", "flex, block 128"]
# Graphs of its own spare the host's work, which is the same for both blocks: of them the one that has won elsewhere.
MODES = {"default": ATTENTIONS, "reduce-overhead": ATTENTIONS[:2]}


def attend(module, query, key, value, attention_mask, scaling, **_):
    """FlexAttention where a layer has a window, SDPA without a mask where it sees everything."""
    if isinstance(attention_mask, BlockMask):
        if query.device.type == "cpu":  # torch 2.11 reads v there as if it were not a part of the projection
            value = value.clone(memory_format=torch.contiguous_format)
        small = attention_mask.BLOCK_SIZE[0] == 64 and query.device.type == "cuda"
        tiles = {"BLOCK_M": 64, "BLOCK_N": 64} if small else None
        out = flex_attention(query, key, value, block_mask=attention_mask, scale=scaling, kernel_options=tiles)
    else:
        out = F.scaled_dot_product_attention(query, key, value, attn_mask=attention_mask, scale=scaling)
    return out.transpose(1, 2).contiguous(), None


class Encoder(nn.Module):
    """The model of transformers, given masks that were made before: those of a kind of layer are the same in every call."""

    def __init__(self, length, layers):
        super().__init__()
        import transformers

        transformers.AttentionInterface.register("given", attend)
        sizes = {"num_hidden_layers": layers} if layers else {}
        config = transformers.ModernBertConfig(vocab_size=1000, max_position_embeddings=length, pad_token_id=0, bos_token_id=1,
                                               eos_token_id=2, cls_token_id=1, sep_token_id=2, **sizes)  # fmt: skip
        config._attn_implementation = "eager"
        self.inner = transformers.ModernBertModel(config).eval()
        models.randomise(self.inner)

    def forward(self, ids, masks):
        return self.inner(input_ids=ids, attention_mask=masks).last_hidden_state


class Case:
    """What models.Checked needs to know of a size."""

    def __init__(self, options, batch, length):
        torch.manual_seed(1)
        self.length, self.device = length, options.device
        self.model = Encoder(length, options.layers).eval().to(options.device)
        self.ids = torch.randint(0, 1000, (batch, length), device=options.device)
        near = self.near(torch.arange(length, device=options.device)[:, None], torch.arange(length, device=options.device))
        self.dense = near[None, None]
        forbidden = torch.zeros(near.shape, device=options.device).masked_fill_(~near, float("-inf"))[None, None]
        self.want = models.wanted_of(self.model, self.ids, {"full_attention": None, "sliding_attention": forbidden})
        self.dtype = torch.float16 if options.device == "cuda" else torch.bfloat16
        self.model = self.model.to(self.dtype)
        self.model.inner.config._attn_implementation = "given"

    @staticmethod
    def near(query, key):
        return (query - key).abs() <= REACH

    def masks(self, attention):
        window = self.dense
        if attention != "sdpa with mask":
            window = create_block_mask(lambda b, h, q, k: self.near(q, k), None, None, self.length, self.length,
                                       device=self.device, BLOCK_SIZE=int(attention.rsplit(" ", 1)[1]))  # fmt: skip
        return {"full_attention": None, "sliding_attention": window}


@torch.inference_mode()
def run_one(options):
    """Compiles, says that it is ready, waits for its turn, and prints its times."""
    size, attention, mode = options.one
    try:
        case = Case(options, *map(int, size.split(",")))
        if options.device == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        checked = models.Checked(case, case.masks(attention), mode, case.want.nbytes)
        if not wait_for_turn():
            return
        found = {"dtype": str(case.dtype).removeprefix("torch."), **checked.times()}
    except Exception as error:  # noqa: BLE001 what a peer cannot do is a result, too
        found = {"failed": models.failure(error)}
    print(json.dumps(found), flush=True)


def command_of(options, key):
    more = ["--layers", options.layers] if options.layers else []
    size = f"{key['texts']},{key['longest']}"
    return [__file__, options.out, "--device", options.device, *more, "--one", size, key["attention"], key["mode"]]


def compare(options, report):
    keys = [{"model": NAME, "mask": "all", "texts": int(size.split(",")[0]), "longest": int(size.split(",")[1]),
             "attention": attention, "mode": mode}
            for mode in options.modes for attention in MODES[mode] if attention in options.attention
            for size in options.sizes]  # fmt: skip
    contenders = [Contender(key, command_of(options, key)) for key in keys if not report.has(key)]
    for key, found in in_turn(contenders, options.compile_seconds):
        report.add({**key, **found})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--modes", nargs="+", default=list(MODES), choices=list(MODES))
    parser.add_argument("--sizes", nargs="+", default=SIZES, metavar="B,S")
    parser.add_argument("--attention", nargs="+", default=ATTENTIONS, choices=ATTENTIONS)
    parser.add_argument("--layers", type=int, help="in place of the model's 22")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--compile-seconds", type=float, default=300, help="after which what has not compiled is left out")
    parser.add_argument("--resume", action="store_true", help="go on with the rows that OUT.json has")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        run_one(options)
        return
    compare(options, models.Report(options, "peers modernbert"))


if __name__ == "__main__":
    main()
