#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what the Python package `tokenizers` makes of token ids, for tests/model/decode_reference_test.cpp to compare
with: hashes over texts, special tokens skipped and kept, of the ids of the strings of token_ids.txt, and of these with
some of them dropped, replaced, and special and byte tokens between them; by 64 strings.

usage: make_decode_reference.py DATA     reads DATA/{families, tokenizers, token_ids.txt}, writes DATA/decode.json; DATA as tests/data
needs: what make_bpe_reference.py needs
"""

import json
import sys
from pathlib import Path

import tokenizers
from make_bpe_reference import MARK, change, put
from make_token_reference import Hash, added

GROUP = 64
REPLACE = {"type": "Replace", "pattern": {"String": MARK}, "content": " "}
FALLBACK = [REPLACE, {"type": "ByteFallback"}, {"type": "Fuse"}]


def adding(first, *contents, special=()):
    return [put("/added_tokens/-", added(content, first + i, special=content in special)) for i, content in enumerate(contents)]


def metaspace(scheme):
    return put("/decoder", {"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme, "split": False})


def pieces(prefix, cleanup):
    return put("/decoder", {"type": "WordPiece", "prefix": prefix, "cleanup": cleanup})


# Characters of these are bytes, all, none, or some of them; the last three hide in texts, and are special or not.
OF_BYTES = adding(800, "\u00e9t\u00e9", MARK, "n\u00e9" + MARK, "\u00c3\u0102", "<|tool|>", "\u00e4\u00b8", special=("<|tool|>", "\u00e4\u00b8"))
OF_CHARACTERS = adding(800, " x", MARK + "y" + MARK, "<0x+5>", "<0xe4>", "<0x4g>", "<0x\u00e9>", "<tool>", " ",
                       special=("<tool>", "<0xe4>"))  # fmt: skip
OF_PIECES = adding(906, " do not . ' x n't", "##", "####a", "n't", "do not", "'s", " ' ", "  .  ", "'ve", special=("'ve",))

VARIANTS = [
    {"file": "families/gpt2/tokenizer.json", "changes": []},
    {"file": "families/roberta/tokenizer.json", "changes": OF_BYTES},
    {"file": "families/modernbert/tokenizer.json", "changes": []},
    {"file": "tokenizers/llama3.json", "changes": OF_BYTES},
    {"file": "tokenizers/qwen2.json", "changes": []},
    {"file": "tokenizers/mistral.json", "changes": []},
    {"file": "tokenizers/mistral.json", "changes": OF_CHARACTERS},
    {"file": "tokenizers/mistral.json", "changes": [put("/decoder", {"type": "Sequence", "decoders": FALLBACK}), *OF_CHARACTERS]},
    {"file": "tokenizers/mistral.json", "changes": [metaspace("first"), *OF_CHARACTERS]},
    {"file": "tokenizers/mistral.json", "changes": [metaspace("always")]},
    {"file": "tokenizers/mistral.json", "changes": [metaspace("never"), *OF_CHARACTERS]},
    {"file": "tokenizers/mistral.json", "changes": [put("/decoder", None)]},
    {"file": "families/gemma3/tokenizer.json", "changes": OF_CHARACTERS},
    {"file": "families/distilbert/tokenizer.json", "changes": [pieces("##", True)]},
    {"file": "families/distilbert/tokenizer.json", "changes": [pieces("##", True), *OF_PIECES]},
    {"file": "families/distilbert/tokenizer.json", "changes": [pieces("##", False), *OF_PIECES]},
    {"file": "families/distilbert/tokenizer.json", "changes": [pieces("", True), *OF_PIECES]},
    {"file": "families/distilbert/tokenizer.json", "changes": OF_PIECES},
]  # fmt: skip


class Random:
    """The finaliser of splitmix64 of 1, 2, 3, ..."""

    def __init__(self):
        self.count = 0

    def below(self, bound):
        self.count += 1
        x = self.count
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
        return (x ^ (x >> 31)) % bound


def mutated(random, ids, tokens):
    """The first 260 ids are special tokens and bytes, the last 12 added ones; that of `tokens` ids."""
    result = []
    for identifier in ids:
        what = random.below(8)
        if what == 0:
            continue
        if what == 1:
            result.append(random.below(260))
        if what == 2:
            result.append(tokens - 1 - random.below(12))
        result.append(random.below(tokens) if what == 3 else identifier)
    return result


def hashes(tokenizer, strings):
    random, tokens = Random(), tokenizer.get_vocab_size()
    for first in range(0, len(strings), GROUP):
        plain, changed = Hash(), Hash()
        for text in strings[first:first + GROUP]:  # fmt: skip
            ids = tokenizer.encode(text).ids
            for total, sequence in ((plain, ids), (changed, mutated(random, ids, tokens))):
                for skip in (True, False):
                    total.add(tokenizer.decode(sequence, skip_special_tokens=skip).encode())
        yield [plain.hex(), changed.hex()]


def main():
    data = Path(sys.argv[1])
    strings = [json.loads(line) for line in (data / "token_ids.txt").read_text(encoding="ascii").splitlines()[::3]]
    result = {"made_by": "tools/make_decode_reference.py", "tokenizers": tokenizers.__version__, "variants": []}
    for options in VARIANTS:
        tree = json.loads((data / options["file"]).read_text(encoding="utf-8"))
        for operation in options["changes"]:
            change(tree, operation)
        tokenizer = tokenizers.Tokenizer.from_str(json.dumps(tree))
        result["variants"].append({**options, "hashes": list(hashes(tokenizer, strings))})
    text = json.dumps(result, ensure_ascii=True).replace('], ["', '],\n["').replace("}, {", "},\n{")
    (data / "decode.json").write_text(text + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
