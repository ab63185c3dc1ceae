#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Device time of BERT encoders by torch, eager and compiled, by CUDA-graph replay; outputs checked against fp32 eager.
    models.py OUT.json [--compile default,max-autotune]    needs a GPU, torch and transformers
Weights are random: time does not depend on them. Peers get what makes them fastest: no padding mask where none is needed.
"""
from __future__ import annotations

import argparse
import json
import time

import torch
import transformers

import timing

SHAPES = [("BERT-base", 1, 128), ("BERT-base", 8, 512), ("MiniLM", 32, 64)]
CONFIGS = {
    "BERT-base": dict(hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072),
    "MiniLM": dict(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536),
}


def encoder(name, dtype):
    torch.manual_seed(1)
    config = transformers.BertConfig(**CONFIGS[name], attn_implementation="sdpa")
    return transformers.BertModel(config, add_pooling_layer=False).eval().cuda().to(dtype)


def measure(name, batch, length, mode):
    ids = torch.randint(0, 30000, (batch, length), device="cuda")
    model = encoder(name, torch.float16)
    want = encoder(name, torch.float32)(ids).last_hidden_state
    begin = time.monotonic()
    call = model if mode == "eager" else torch.compile(model, mode=mode, dynamic=False)
    # None where every key is allowed: SDPA then takes its fastest kernel.
    run = lambda: call(ids, attention_mask=None).last_hidden_state  # noqa: E731
    got = run().float()
    seconds = time.monotonic() - begin
    error = ((got - want).norm() / want.norm()).item()
    if not error < 5e-3:
        raise timing.WrongOutput(f"{name} {mode}: relative error {error:.2e}")
    return {"model": name, "texts": batch, "longest": length, "dtype": "f16", "mode": mode,
            "device_us": timing.device_time_us(run), "compile_s": seconds, "error": error}


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--compile", default="default")
    options = parser.parse_args()
    rows = []
    for mode in ["eager", *options.compile.split(",")]:
        for shape in SHAPES:
            rows.append(measure(*shape, mode))
            print(rows[-1], flush=True)
            report = {"device": torch.cuda.get_device_name(), "torch": torch.__version__,
                      "transformers": transformers.__version__, "rows": rows}
            with open(options.out, "w", encoding="utf-8") as file:
                json.dump(report, file, indent=1)
            torch._dynamo.reset()


if __name__ == "__main__":
    main()
