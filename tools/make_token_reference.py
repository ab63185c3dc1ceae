#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what the Python package `tokenizers` makes of text, for tests/model/tokenizer_test.cpp to compare with.

usage: make_token_reference.py MODEL OUT                 writes OUT/token_ids.txt and OUT/token_scalars.json
       make_token_reference.py MODEL --block V B         prints ids and normalised text of variant V, block B, a scalar a line
needs: tokenizers

token_ids.txt has three lines a string: the string as JSON, its ids, and per variant a hash of ids and normalised text. token_scalars.json has the variants, and for each a hash over every Unicode scalar value put into a pattern,
by blocks of 256, runs of equal blocks joined.
"""

import hashlib
import json
import sys
from pathlib import Path

import tokenizers
from nasty_strings import nasty_strings

SURROGATES = range(0xD800, 0xE000)


def normalizer(clean=True, chinese=True, accents=None, lower=True):
    return {"type": "BertNormalizer", "clean_text": clean, "handle_chinese_chars": chinese, "strip_accents": accents,
            "lowercase": lower}


def added(content, identifier, **flags):
    token = {"id": identifier, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": False}
    return {**token, **flags}


# Of the checkpoint's tokenizer.json, null: unchanged. The pattern's % is each scalar in turn.
VARIANTS = [
    {"pattern": "a%b", "normalizer": None, "added_tokens": None},
    {"pattern": "a%b", "normalizer": normalizer(accents=False), "added_tokens": None},
    {"pattern": "a%b", "normalizer": normalizer(clean=False, chinese=False, accents=True, lower=False), "added_tokens": None},
    {"pattern": "a%b", "normalizer": normalizer(clean=False, lower=False), "added_tokens": None},
    {"pattern": "%wow% wow%", "normalizer": None, "added_tokens": [
        added("wow", 10166, single_word=True), added("[MASK]", 103, lstrip=True), added("##ing", 2075, rstrip=True),
        added("[M", 30522, lstrip=True, rstrip=True), added("Wow\u00c9", 30523, normalized=True),
        added("\u4e2d.", 30524, normalized=True, single_word=True)]},
    {"pattern": "a%<s>%b", "normalizer": normalizer(clean=False), "added_tokens": [
        added("<s>", 30522, lstrip=True, rstrip=True, special=True), added("<s", 30523),
        added("x\u0301", 30524, normalized=True, lstrip=True, rstrip=True)]},
]


class Variant:
    def __init__(self, folder, options):
        tree = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
        for key in ("normalizer", "added_tokens"):
            tree[key] = options[key] or tree[key]
        self.tokenizer = tokenizers.Tokenizer.from_str(json.dumps(tree))
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self.pattern = options["pattern"]

    def ids(self, text):
        return self.tokenizer.encode(text).ids

    def normalized(self, text):
        return self.tokenizer.normalizer.normalize_str(text)

    def scalar(self, c):
        return self.pattern.replace("%", chr(c))


class Hash:
    """FNV-1a over 64-bit words."""

    def __init__(self):
        self.value = 0xCBF29CE484222325

    def add(self, words):
        for word in words:
            self.value = ((self.value ^ word) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
        self.value = ((self.value ^ 0xFFFFFFFF) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF  # so that sequences do not run together

    def hex(self):
        return f"{self.value:016x}"


def add_text(total, variant, text, scalar=None):
    """Ids, then normalised text; in it the scalar itself counts as %, so that blocks of plain characters are equal."""
    normalized = variant.normalized(text)
    total.add(variant.ids(text))
    total.add((normalized.replace(scalar, "%") if scalar else normalized).encode())


def text_hash(variant, text):
    total = Hash()
    add_text(total, variant, text)
    return total.hex()


def block_hash(variant, block):
    total = Hash()
    for c in block_scalars(block):
        add_text(total, variant, variant.scalar(c), chr(c))
    return total.hex()


def block_scalars(block):
    return [c for c in range(block * 256, block * 256 + 256) if c not in SURROGATES]


def scalar_hashes(variant):
    runs = []
    for block in range(0x110000 // 256):
        value = block_hash(variant, block)
        if runs and runs[-1][2] == value:
            runs[-1][1] = block
        else:
            runs.append([block, block, value])
    return runs


def write_strings(variants, path):
    with path.open("w", encoding="ascii") as out:
        for text in nasty_strings():
            print(json.dumps(text), file=out)
            print(*variants[0].ids(text), file=out)
            print(*[text_hash(variant, text) for variant in variants], file=out)


def main():
    folder = Path(sys.argv[1])
    variants = [Variant(folder, options) for options in VARIANTS]
    if sys.argv[2] == "--block":
        variant, block = variants[int(sys.argv[3])], int(sys.argv[4])
        for c in block_scalars(block):
            text = variant.scalar(c)
            print(json.dumps(text), variant.ids(text), json.dumps(variant.normalized(text)))
        return
    out = Path(sys.argv[2])
    write_strings(variants, out / "token_ids.txt")
    reference = {
        "made_by": "tools/make_token_reference.py",
        "tokenizers": tokenizers.__version__,
        "tokenizer_sha256": hashlib.sha256((folder / "tokenizer.json").read_bytes()).hexdigest(),
        "variants": [{**options, "blocks": scalar_hashes(variant)} for options, variant in zip(VARIANTS, variants)],
    }
    text = json.dumps(reference, ensure_ascii=True).replace('"variants": [', '"variants": [\n').replace("], [", "],\n[")
    (out / "token_scalars.json").write_text(text + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
