#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what the Python package `tokenizers` makes of text with byte-level BPE, for
tests/model/byte_level_reference_test.cpp to compare with: hashes over the ids of a text and the lengths of its words, for
the strings of token_ids.txt and for every Unicode scalar value put into a pattern, by blocks of 4096.

usage: make_byte_level_reference.py FAMILIES TOKEN_IDS OUT     as in tests/data: families, token_ids.txt, byte_level.json
needs: tokenizers
"""

import json
import sys
from pathlib import Path

import tokenizers
from make_token_reference import SURROGATES, Hash, added

BLOCK = 4096
# The pattern's % is each scalar in turn: behind and before a letter, a number, a sign and a space, alone, and doubled.
PATTERN = "a%1%!% %%\'s%  %'%"
VARIANTS = [
    {"family": "gpt2", "pattern": PATTERN, "add_prefix_space": False, "added_tokens": []},
    {"family": "roberta", "pattern": "%<mask>%  <mask> % <pad>%", "add_prefix_space": False, "added_tokens": []},
    {"family": "gpt2", "pattern": "%wow% wow%", "add_prefix_space": True, "added_tokens": [
        added("wow", 800, single_word=True), added("Wow\u00c9", 801, normalized=True),
        added("##ing", 802, lstrip=True, rstrip=True), added("[M", 803, rstrip=True),
        added("\u4e2d.", 804, normalized=True, single_word=True), added("x\u0301", 805, lstrip=True)]},
]  # fmt: skip


class Variant:
    def __init__(self, families, options):
        tree = json.loads((families / options["family"] / "tokenizer.json").read_text(encoding="utf-8"))
        tree["pre_tokenizer"]["add_prefix_space"] = options["add_prefix_space"]
        tree["added_tokens"] += options["added_tokens"]
        self.tokenizer = tokenizers.Tokenizer.from_str(json.dumps(tree))
        self.words = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        self.pattern = options["pattern"]

    def add(self, text, total):
        total.add(self.tokenizer.encode(text).ids)
        total.add([len(word) for word, _ in self.words.pre_tokenize_str(text)])  # a character of theirs is a byte

    def string(self, text):
        total = Hash()
        self.add(text, total)
        return total.hex()

    def block(self, first):
        total = Hash()
        for c in range(first, first + BLOCK):
            if c not in SURROGATES:
                self.add(self.pattern.replace("%", chr(c)), total)
        return total.hex()


def main():
    families, token_ids, out = map(Path, sys.argv[1:])
    strings = [json.loads(line) for line in token_ids.read_text(encoding="ascii").splitlines()[::3]]
    result = {"made_by": "tools/make_byte_level_reference.py", "tokenizers": tokenizers.__version__, "variants": []}
    for options in VARIANTS:
        variant = Variant(families, options)
        result["variants"].append({**options, "strings": [variant.string(text) for text in strings],
                                   "scalars": [variant.block(first) for first in range(0, 0x110000, BLOCK)]})  # fmt: skip
    text = json.dumps(result, ensure_ascii=True).replace('", "', '",\n"').replace("}, {", "},\n{")
    out.write_text(text + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
