#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Computes the reference embeddings that tests compare with: transformers, fp32, one sentence at a time, so that no
padding is involved; mean over the tokens, then scaled to length 1, as modules.json of all-MiniLM-L6-v2 asks.

usage: make_reference.py MODEL SENTENCES OUT.npy     writes f4 [sentences, hidden] and, beside it, OUT.json
needs: torch, transformers, numpy
"""

import hashlib
import json
import platform
import sys
from pathlib import Path

import numpy as np
import torch
import transformers

MAX_TOKENS = 256  # max_seq_length of sentence_bert_config.json


def embed(model, tokenizer, sentence):
    tokens = tokenizer(sentence, truncation=True, max_length=MAX_TOKENS, padding=False, return_tensors="pt")
    mean = model(**tokens).last_hidden_state[0].mean(dim=0)
    return torch.nn.functional.normalize(mean, dim=0).numpy()


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main():
    folder, sentences, out = map(Path, sys.argv[1:])
    model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    lines = sentences.read_text(encoding="utf-8").splitlines()
    with torch.no_grad():
        embeddings = np.stack([embed(model, tokenizer, line) for line in lines]).astype("<f4")
    np.save(out, embeddings)
    origin = {
        "made_by": "tools/make_reference.py",
        "sentences": len(lines),
        "sentences_sha256": sha256(sentences),
        "model_sha256": sha256(folder / "model.safetensors"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "numpy": np.__version__,
    }
    out.with_suffix(".json").write_text(json.dumps(origin, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
