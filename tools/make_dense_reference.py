#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a model of embeddings of random weights for tests: tests/data/families/gemma3 with both sides seen, behind it what
sentence-transformers saves of a pooling, two dense layers and normalising, and the vectors that it gives for the families' texts.

usage: make_dense_reference.py FOLDER     FOLDER as tests/data/families/gemma3_with_dense
needs: torch, transformers, sentence-transformers
"""

import json
import sys
from pathlib import Path

import numpy as np
import sentence_transformers
import tokenizers
import torch
import transformers
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
from sentence_transformers.util import fullname

ROOT = Path(__file__).resolve().parents[1]
CHECKPOINT = ROOT / "tests/data/families/gemma3"


def behind_the_encoder():
    torch.manual_seed(11)
    dense = [Dense(32, 48, bias=False, activation_function=torch.nn.Identity()), Dense(48, 40)]
    return [Pooling(32, pooling_mode="mean"), *dense, Normalize()]


def write_encoder(out):
    config = json.loads((CHECKPOINT / "config.json").read_text())
    (out / "config.json").write_text(json.dumps({**config, "use_bidirectional_attention": True}, indent=2) + "\n")
    for name in ("model.safetensors", "tokenizer.json", "lengths.npy"):
        (out / name).unlink(missing_ok=True)
        (out / name).symlink_to(Path("../gemma3") / name)


def vector_of(text, model, tokenizer, modules):
    ids = torch.tensor([tokenizer.encode(text).ids])
    features = {"token_embeddings": model(ids).last_hidden_state, "attention_mask": torch.ones_like(ids)}
    for module in modules:
        features = module(features)
    return features["sentence_embedding"][0].numpy()


def main():
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    write_encoder(out)
    modules = behind_the_encoder()
    listed = [{"idx": 0, "name": "0", "path": "", "type": f"{Transformer.__module__}.{Transformer.__qualname__}"}]
    for i, module in enumerate(modules, start=1):
        path = f"{i}_{type(module).__name__}"
        (out / path).mkdir(parents=True, exist_ok=True)
        module.save(str(out / path))
        for file in (out / path).iterdir():
            file.chmod(0o644)
        listed.append({"idx": i, "name": str(i), "path": path, "type": fullname(module)})
    (out / "modules.json").write_text(json.dumps(listed, indent=2) + "\n")
    tokenizer = tokenizers.Tokenizer.from_file(str(out / "tokenizer.json"))
    model = transformers.AutoModel.from_pretrained(out, dtype=torch.float32, attn_implementation="eager").eval()
    texts = (ROOT / "tests/data/families/texts.txt").read_text().split("\n")[:-1]
    with torch.no_grad():
        vectors = [vector_of(text, model, tokenizer, modules) for text in texts if tokenizer.encode(text).ids]
    np.save(out / "embeddings.npy", np.stack(vectors).astype("<f4"))
    made = {"made_by": "tools/make_dense_reference.py", "torch": torch.__version__, "transformers": transformers.__version__,
            "sentence_transformers": sentence_transformers.__version__}  # fmt: skip
    (out / "origin.json").write_text(json.dumps(made, indent=2) + "\n")


if __name__ == "__main__":
    main()
