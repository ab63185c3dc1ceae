#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MPNet-base (all-mpnet-base-v2), the encoders of T5-base, with relu (sentence-t5-base, gtr-t5-base) and with gates (v1.1), Nomic Embed
and EuroBERT-210m: a session of STOF beside transformers' own model, eager and compiled, in turns: from token ids on the host to a vector
for each text there, the mean of its last hidden states. Weights are random; the hidden states of each, of all texts, are compared with
transformers in fp32 before it is timed.
    encoders.py OUT.json [--resume] [--models mpnet-base t5-base] [--sizes 1,128 8,512] [--other-dtype 8,512]
                       [--compile-seconds N] [--rounds N] [--without NAME...] [--commit ID] [--device cpu --small]
Each row is a process of its own. All compile side by side, so `prepare_s` is that of a busy machine.
Needs torch, transformers, and the package stof with its library (PYTHONPATH, STOF_LIBRARY).
"""
from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import models
import torch
import transformers
import vectors
from cpu_run import ROOT, Results
from side_by_side import Contender, in_turn, wait_for_turn

MPNET = {"vocab_size": 30527, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
         "max_position_embeddings": 514, "layer_norm_eps": 1e-5}  # fmt: skip
T5 = {"vocab_size": 32128, "d_model": 768, "num_layers": 12, "num_heads": 12, "d_kv": 64, "d_ff": 3072, "feed_forward_proj": "relu"}
NOMIC = {"max_position_embeddings": 8192}  # its base size is what transformers has where nothing is said, and so is EuroBERT's
EUROBERT = {"num_key_value_heads": 12, "rope_parameters": {"rope_type": "default", "rope_theta": 250000.0}}
USUAL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}
SMALL = {"mpnet": USUAL, "t5": {"d_model": 64, "num_layers": 2, "num_heads": 2, "d_ff": 128}, "nomic": USUAL,
         "eurobert": {**USUAL, "num_key_value_heads": 2}}  # fmt: skip
# By name: family, sizes, and the type in which every size is measured.
MODELS = {"mpnet-base": ("mpnet", MPNET, "f16"), "t5-base": ("t5", T5, "bf16"),
          "t5-v1.1-base": ("t5", {**T5, "d_ff": 2048, "feed_forward_proj": "gated-gelu"}, "bf16"),
          "nomic-base": ("nomic", NOMIC, "f16"), "eurobert-210m": ("eurobert", EUROBERT, "bf16")}  # fmt: skip
OTHER = {"f16": "bf16", "bf16": "f16"}
SIZES, OTHER_SIZES = ["1,128", "8,512", "32,128"], ["8,512"]
LEAST_ID = 5  # below it are tokens that stand around texts
VOCABULARY = 30000  # where a model's sizes do not say it: no more than it has
BIAS = 3.0  # deviation: a wrong bias moves hidden states by more than the bounds of bf16 (tests/tools/encoders_test.py)
GRAPH_CALLS = 2  # ahead of the one that is compared: what has graphs of its own replays from the third call on
SAME = ("command", "commit", "device", "packages", "small")


def kind_of(family):
    """Model, config, and what the model's constructor takes besides."""
    return {"mpnet": (transformers.MPNetModel, transformers.MPNetConfig, {"add_pooling_layer": False}),
            "t5": (transformers.T5EncoderModel, transformers.T5Config, {}),
            "nomic": (transformers.NomicBertModel, transformers.NomicBertConfig, {}),
            "eurobert": (transformers.EuroBertModel, transformers.EuroBertConfig, {})}[family]  # fmt: skip


def loaded(folder, family, dtype):
    model, _, more = kind_of(family)
    return model.from_pretrained(folder, dtype=dtype, **more)


def checkpoint(folder: Path, name: str, small: bool) -> None:
    """With weights as transformers begins with them, but for larger biases by distance where there are some."""
    family, sizes, _ = MODELS[name]
    sizes = {**sizes, **(SMALL[family] if small else {})}
    torch.manual_seed(1)
    made, config, more = kind_of(family)
    model = made(config(**sizes), **more)
    for parameter, values in model.named_parameters():
        if "relative_attention_bias" in parameter:
            torch.nn.init.normal_(values, std=BIAS)
    model.save_pretrained(folder)
    tokenizer = ROOT / f"tests/data/families/{family}/tokenizer.json"  # of texts, which nobody gives
    (folder / "tokenizer.json").write_bytes(tokenizer.read_bytes())


def contenders(folder, family, ids, options, dtype):
    def of_transformers(mode=None):
        return vectors.Transformers(loaded(folder, family, vectors.DTYPES[dtype]), ids, options, mode)

    return vectors.asked({"stof": lambda: vectors.Stof(folder, ids, options, dtype), "transformers": of_transformers,
                          "transformers, compiled": lambda: of_transformers("default"),
                          "transformers, reduce-overhead": lambda: of_transformers("reduce-overhead")}, options)  # fmt: skip


@torch.inference_mode()
def peers_of(folder, key, options):
    """None: it was not said to be this row's turn."""
    family, sizes, _ = MODELS[key["model"]]
    torch.manual_seed(2)
    ids = torch.randint(LEAST_ID, sizes.get("vocab_size", VOCABULARY), (key["texts"], key["longest"])).tolist()
    want = vectors.Transformers(loaded(folder, family, torch.float32), ids, options).hidden().cpu()

    def errors_of(one):
        for _ in range(GRAPH_CALLS):
            one.hidden()
        return models.check(one.hidden().cpu(), want, options.device, models.BOUND * (1 if key["dtype"] == "f16" else 10))

    peers, ready = vectors.compared(contenders(folder, family, ids, options, key["dtype"]), errors_of, lambda one: one.vectors())
    if not wait_for_turn():
        return None
    vectors.time_in_turns(peers, ready, options.rounds, lambda one: one.vectors())
    return peers


def run_one(options):
    try:
        found = {"peers": peers_of(Path(options.folder), json.loads(options.one), options)}
    except Exception as error:  # noqa: BLE001 of transformers in fp32, too
        found = {"failed": models.failure(error)}
    print(json.dumps(found), flush=True)


def keys_of(options):
    """Every size in a model's usual type, some in the other one as well. The CPU has no f16."""
    keys = []
    for model in options.models:
        usual = MODELS[model][2]
        pairs = [*((usual, size) for size in options.sizes), *((OTHER[usual], size) for size in options.other_dtype)]
        for dtype, size in pairs:
            texts, longest = map(int, size.split(","))
            keys.append({"model": model, "texts": texts, "longest": longest, "dtype": dtype if options.device == "cuda" else "bf16"})
    return [key for number, key in enumerate(keys) if key not in keys[:number]]


def id_of(key):
    return f"{key['model']} {key['dtype']} ({key['texts']}, {key['longest']})"


def command_of(options, folder, key):
    return [__file__, options.out, "--device", options.device, "--rounds", options.rounds, "--without", *options.without,
            "--folder", folder / key["model"], "--one", json.dumps(key)]  # fmt: skip


def compare(options, results, folder):
    keys = [key for key in keys_of(options) if not results.has(id_of(key))]
    for model in dict.fromkeys(key["model"] for key in keys):
        checkpoint(folder / model, model, options.small)
    for key, found in in_turn([Contender(key, command_of(options, folder, key)) for key in keys], options.compile_seconds):
        if "failed" in found:
            print(f"{id_of(key)}: {found['failed']}", flush=True)
        else:
            results.add({"id": id_of(key), **key, **found})


def parser():
    parser = vectors.parser_of(__doc__, SIZES)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--other-dtype", nargs="*", default=OTHER_SIZES, metavar="B,S", help="sizes that are measured in the other type, too")
    parser.add_argument("--compile-seconds", type=float, default=150, help="after which rows that have not compiled are left out")
    parser.add_argument("--resume", action="store_true", help="go on with the rows that OUT.json has")
    parser.add_argument("--folder", help="of --one")
    parser.add_argument("--one", help="a row: its process")
    return parser


def main():
    options = parser().parse_args()
    transformers.logging.disable_progress_bar()
    if options.one:
        run_one(options)
        return
    head = {"device": options.device, **vectors.head_of("encoders", options), "small": options.small}  # of a GPU it is its name
    results = Results(options.out, head, options.resume, same=SAME)
    with tempfile.TemporaryDirectory() as folder:
        compare(options, results, Path(folder))
    results.write()
    if results.data["rows"]:
        subprocess.run([sys.executable, ROOT / "bench/report.py", options.out], check=True)


if __name__ == "__main__":
    main()
