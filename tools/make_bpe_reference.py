#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what the Python package `tokenizers` makes of text with BPE, Unigram and MPNet's word pieces, for
tests/model/bpe_reference_test.cpp to compare with: hashes over the ids of a text and the lengths of its words, for the strings
of token_ids.txt, by 16, and for every Unicode scalar value put into a pattern, by blocks of 4096. Writes the tokenizers, too,
that tests/data/families has not.

usage: make_bpe_reference.py DATA [FILE...]     reads DATA/{families, token_ids.txt}, writes DATA/{tokenizers, bpe.json}; DATA as
                                                tests/data; with files, as families/t5/tokenizer.json, keeps what bpe.json says of others
needs: what make_small_models.py needs
"""

import copy
import json
import sys
from pathlib import Path

import small_tokenizers
import tokenizers
from make_token_reference import SURROGATES, Hash, added

BLOCK, GROUP = 4096, 16
MARK = "\u2581"
# The pattern's % is each scalar in turn: behind and before a letter, a number, a sign and a space, alone, and doubled.
PATTERN = "a%1%!% %%\'s%  %'%"
# And as the letter of a contraction, beside line breaks, tabs and several digits.
BREAKS = PATTERN + "z'l%'%ez\n%\r\n \t%\t12%345%%%%6\n\n % \r"
MARKS = "%a % <s>% a<s>%%"

# What a variant changes in a tokenizer, as RFC 6902 has it.
def put(path, value):
    return {"op": "add", "path": path, "value": value}


def renamed(token):
    """It has no token any more."""
    return {"op": "move", "from": "/model/vocab/" + token, "path": "/model/vocab/not " + token}


def adding(*tokens):
    return [put("/added_tokens/-", token) for token in tokens]


MARKING_NORMALIZER = {"type": "Sequence", "normalizers": [
    {"type": "Prepend", "prepend": MARK}, {"type": "Replace", "pattern": {"String": " "}, "content": MARK}]}  # fmt: skip
MORE_OF_MISTRAL = adding(
    added("wow", 800, normalized=True), added("##ing", 801, lstrip=True), added("[M", 802, rstrip=True),
    added("\u4e2d.", 803, single_word=True), added("x\u0301", 804, normalized=True, lstrip=True, rstrip=True))  # fmt: skip
MORE_OF_XLM = adding(
    added("##ing", 800, lstrip=True), added("[M", 801, rstrip=True), added("\u4e2d.", 802, single_word=True),
    added("x\u0301", 803, normalized=True, lstrip=True, rstrip=True))  # fmt: skip
BEHIND_WORDS = {"type": "TemplateProcessing", "pair": [],
                "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}],
                "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [797], "tokens": ["<|endoftext|>"]}}}  # fmt: skip
OFFSETS = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}

# Words by the expression of GPT-4o, which tells capital letters from small ones, and text as it is.
CAPITAL, SMALL, CONTRACTION = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
GPT4O = "|".join([rf"[^\r\n\p{{L}}\p{{N}}]?{CAPITAL}*{SMALL}+{CONTRACTION}", rf"[^\r\n\p{{L}}\p{{N}}]?{CAPITAL}+{SMALL}*{CONTRACTION}",
                  r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])  # fmt: skip
AS_GPT4O = [put("/normalizer", None), put("/pre_tokenizer/pretokenizers/0/pattern/Regex", GPT4O)]
CASES = "AB%ab%aB'S%'t/%\r/%Ab/A%Ba%'ll"


def sequence(*normalizers):
    """The normalizer that is there, and these behind it."""
    return [{"op": "move", "from": "/normalizer", "path": "/model/kept"}, put("/normalizer", {"type": "Sequence", "normalizers": []}),
            {"op": "move", "from": "/model/kept", "path": "/normalizer/normalizers/-"}, *(put("/normalizer/normalizers/-", one) for one in normalizers)]  # fmt: skip


def runs_become(content):
    return {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": content}


SPACES = "%a  % <s> %<mask>a\u3099%   %\r\n%e\u0301% "

SENTINELS = "%a  % </s> %<extra_id_3>a\u3099%   <extra_id_0> %\r\n%e\u0301% "

# `split`: of which words the lengths are compared. `merges`: how many are left.
VARIANTS = [
    {"file": "families/gpt2/tokenizer.json", "split": "gpt2", "pattern": PATTERN, "changes": []},
    {"file": "families/roberta/tokenizer.json", "split": "gpt2", "pattern": "%<mask>%  <mask> % <pad>%", "changes": []},
    {"file": "families/gpt2/tokenizer.json", "split": "gpt2", "pattern": "%wow% wow%",
     "changes": [put("/pre_tokenizer/add_prefix_space", True), *adding(
        added("wow", 800, single_word=True), added("Wow\u00c9", 801, normalized=True),
        added("##ing", 802, lstrip=True, rstrip=True), added("[M", 803, rstrip=True),
        added("\u4e2d.", 804, normalized=True, single_word=True), added("x\u0301", 805, lstrip=True))]},
    # Most tokens that are left are words which no merge makes.
    {"file": "tokenizers/llama3.json", "split": "llama3", "pattern": BREAKS, "merges": 60, "changes": []},
    {"file": "tokenizers/llama3.json", "split": "llama3", "pattern": "%\n% the%", "merges": 60,
     "changes": [put("/model/ignore_merges", False), {"op": "move", "from": "/post_processor/processors/1", "path": "/post_processor"}]},
    {"file": "tokenizers/qwen2.json", "split": "qwen2", "pattern": "%12%%%'%z \n%\n", "changes": []},
    {"file": "tokenizers/qwen2.json", "split": "qwen2", "pattern": "%x\u0301% wow\u0301%<|im_start|> %\n",
     "changes": [put("/post_processor", {"type": "Sequence", "processors": [OFFSETS, BEHIND_WORDS]}), *adding(
         added("wow", 800), added("Wow\u00c9", 801, normalized=True), added("x\u0301", 802, normalized=True, lstrip=True))]},
    {"file": "tokenizers/qwen2.json", "split": "gpt4o", "pattern": BREAKS + CASES, "changes": AS_GPT4O},
    {"file": "tokenizers/qwen2.json", "split": "gpt4o", "pattern": "\u0301%\u0301A%A\u0301%%aA%\u01c5%\u02b0%\u4e2d%", "changes": AS_GPT4O},
    {"file": "tokenizers/mistral.json", "pattern": MARKS, "changes": []},
    {"file": "tokenizers/mistral.json", "pattern": MARKS + "wow%", "changes": [
        put("/pre_tokenizer/prepend_scheme", "always"), put("/model/fuse_unk", False),
        *map(renamed, ["<0xF0>", "<0xE2>", "<0xCC>"]), *MORE_OF_MISTRAL]},
    {"file": "tokenizers/mistral.json", "pattern": MARKS + "wow% wow", "changes": [
        put("/normalizer", MARKING_NORMALIZER), put("/pre_tokenizer", None),
        *map(renamed, ["<0xF0>", "<0xE2>", "<0xCC>"]), *MORE_OF_MISTRAL]},
    {"file": "tokenizers/mistral.json", "pattern": MARKS, "changes": [
        put("/pre_tokenizer/prepend_scheme", "never"), put("/model/byte_fallback", False), put("/model/unk_token", None)]},
    {"file": "tokenizers/mistral.json", "pattern": MARKS, "changes": [
        put("/model/byte_fallback", False), *MORE_OF_MISTRAL,
        put("/post_processor", {"type": "Sequence", "processors": []})]},
    {"file": "families/gemma3/tokenizer.json", "pattern": "a %  % <bos>% a<bos>%%\n\n%\n \u2581\u2581%<table>", "changes": []},
    {"file": "families/gemma3/tokenizer.json", "pattern": "wow% wow  a % a\u2581%", "changes": [
        *MORE_OF_MISTRAL, *adding(added(" a ", 805, normalized=True), added("a\u2581", 806, normalized=True), added("  ", 807))]},
    {"file": "families/xlm_roberta/tokenizer.json", "pattern": SPACES, "changes": []},
    {"file": "families/xlm_roberta/tokenizer.json", "pattern": SPACES + "##ing%", "changes": [*sequence(runs_become(" ")), *MORE_OF_XLM]},
    {"file": "families/xlm_roberta/tokenizer.json", "pattern": SPACES, "changes": [
        *sequence({"type": "Strip", "strip_left": False, "strip_right": True}, runs_become(MARK)),
        put("/pre_tokenizer", {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "always", "split": True})]},
    {"file": "families/xlm_roberta/tokenizer.json", "pattern": SPACES, "changes": [
        put("/normalizer", None), put("/pre_tokenizer/pretokenizers/1/prepend_scheme", "never"), *MORE_OF_XLM]},
    {"file": "families/t5/tokenizer.json", "pattern": SENTINELS, "changes": []},
    {"file": "families/t5_gated/tokenizer.json", "pattern": SENTINELS, "changes": []},
    {"file": "families/mpnet/tokenizer.json", "pattern": "%<mask>% <mask>a% <unk>%<UNK> [UNK]%", "changes": []},
]  # fmt: skip


def place(tree, path):
    *way, last = path.split("/")[1:]
    for key in way:
        tree = tree[int(key) if isinstance(tree, list) else key]
    return tree, int(last) if isinstance(tree, list) and last != "-" else last


def change(tree, operation):
    value = copy.deepcopy(operation.get("value"))  # which later operations change
    if operation["op"] == "move":
        holder, key = place(tree, operation["from"])
        value = holder.pop(key)
    holder, key = place(tree, operation["path"])
    if key == "-":
        holder.append(value)
    else:
        holder[key] = value


class Variant:
    def __init__(self, data, options):
        tree = json.loads((data / options["file"]).read_text(encoding="utf-8"))
        for operation in options["changes"]:
            change(tree, operation)
        if "merges" in options:
            del tree["model"]["merges"][options["merges"]:]  # fmt: skip
        self.tokenizer = tokenizers.Tokenizer.from_str(json.dumps(tree))
        self.words = self.tokenizer.pre_tokenizer if "split" in options else None
        if options.get("split") == "gpt2":
            self.words = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        self.pattern = options["pattern"]

    def add(self, text, total):
        total.add(self.tokenizer.encode(text).ids)
        if self.words:
            total.add([len(word) for word, _ in self.words.pre_tokenize_str(text)])  # a character of theirs is a byte

    def strings(self, texts):
        total = Hash()
        for text in texts:
            self.add(text, total)
        return total.hex()

    def block(self, first):
        return self.strings(self.pattern.replace("%", chr(c)) for c in range(first, first + BLOCK) if c not in SURROGATES)


def reference(data, options, strings):
    variant = Variant(data, options)
    return {**options, "strings": [variant.strings(strings[i:i + GROUP]) for i in range(0, len(strings), GROUP)],
            "scalars": [variant.block(first) for first in range(0, 0x110000, BLOCK)]}  # fmt: skip


def main():
    data, named = Path(sys.argv[1]), sys.argv[2:]
    (data / "tokenizers").mkdir(exist_ok=True)
    for name, make in (("llama3", small_tokenizers.llama3_tokenizer), ("qwen2", small_tokenizers.qwen_tokenizer),
                       ("mistral", small_tokenizers.mistral_tokenizer)):  # fmt: skip
        if not named:
            make().save(str(data / "tokenizers" / f"{name}.json"), pretty=False)
    strings = [json.loads(line) for line in (data / "token_ids.txt").read_text(encoding="ascii").splitlines()[::3]]
    result = {"made_by": "tools/make_bpe_reference.py", "tokenizers": tokenizers.__version__, "variants": []}
    kept = json.loads((data / "bpe.json").read_text(encoding="ascii"))["variants"] if named else []
    for options in VARIANTS:
        known = [row for row in kept if options["file"] not in named and row.items() >= options.items()]
        result["variants"].append(known[0] if known else reference(data, options, strings))
    text = json.dumps(result, ensure_ascii=True).replace('", "', '",\n"').replace("}, {", "},\n{")
    (data / "bpe.json").write_text(text + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
