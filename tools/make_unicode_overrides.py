#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes src/model/unicode_overrides.h: where the Python package `tokenizers` and utf8proc disagree about a character.

`tokenizers` mixes tables of several Unicode versions, and its categories leave out whole blocks; its vocabularies and
our checkpoints were made with it, so it is the definition. Each property of every Unicode scalar value is asked of
both. Characters that the newest Unicode (package `unicodedata2`) knows and the installed utf8proc does not are written
down too, wherever a newer utf8proc would come to disagree, so that the table holds for newer versions as well.

usage: make_unicode_overrides.py > src/model/unicode_overrides.h       (then clang-format it)
needs: tokenizers, unicodedata2, libutf8proc.so.2
"""

import ctypes
import struct
from dataclasses import dataclass

import tokenizers
import unicodedata2
from tokenizers import AddedToken, Regex, Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import WordPiece

SCALARS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
WHITE_SPACE = {*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}


class Utf8proc:
    """What src/model/unicode.cpp asks of the library."""

    class Property(ctypes.Structure):
        _fields_ = [("category", ctypes.c_int16), ("combining_class", ctypes.c_int16)]

    def __init__(self):
        self.library = library = ctypes.CDLL("libutf8proc.so.2")
        library.utf8proc_get_property.restype = ctypes.POINTER(self.Property)
        library.utf8proc_category_string.restype = ctypes.c_char_p
        library.utf8proc_unicode_version.restype = ctypes.c_char_p
        library.utf8proc_decompose_char.restype = ctypes.c_ssize_t
        self.version = library.utf8proc_unicode_version().decode()

    def category(self, c):
        return self.library.utf8proc_category_string(c).decode()

    def combining_class(self, c):
        return self.library.utf8proc_get_property(c)[0].combining_class

    def lower(self, c):
        return chr(self.library.utf8proc_tolower(c))

    def joins(self, before, c):
        """Whether both are one grapheme."""
        return not self.library.utf8proc_grapheme_break_stateful(before, c, ctypes.byref(ctypes.c_int32(0)))

    def extends(self, c):
        return self.joins(ord("a"), c)

    def prepends(self, c):
        return self.joins(c, ord("a"))

    def decompose(self, c):
        buffer, bound = (ctypes.c_int32 * 32)(), ctypes.c_int(0)
        count = self.library.utf8proc_decompose_char(c, buffer, 32, 1 << 4, ctypes.byref(bound))
        return "".join(map(chr, buffer[:count]))


class Newest:
    """The same questions to the newest Unicode, as a future utf8proc would answer them."""

    def category(self, c):
        return unicodedata2.category(chr(c))

    def combining_class(self, c):
        return unicodedata2.combining(chr(c))

    def lower(self, c):
        lower = chr(c).lower()  # of this Python's own, older Unicode: a newer one adds pairs, which Truth records
        return lower if len(lower) == 1 else chr(c)

    def decompose(self, c):
        return unicodedata2.normalize("NFD", chr(c))


def map_of_a():
    """SentencePiece's compiled map of the letter a to X, which takes all of a short grapheme with it: a double array, and texts."""
    units = [0] * 512
    leaf = 256 ^ ord("a") ^ 1
    units[0] = 256 << 10
    units[256 ^ ord("a")] = 1 << 10 | 1 << 8 | ord("a")
    units[leaf] = 1 << 31
    return struct.pack("<513I", 4 * len(units), *units) + b"X\0"


class Truth:
    """The same questions to `tokenizers`, through its public classes."""

    def __init__(self):
        parts = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
        self.clean = normalizers.BertNormalizer(**{**parts, "clean_text": True})
        self.strip = normalizers.BertNormalizer(**{**parts, "strip_accents": True})
        self.nfd = normalizers.NFD()
        self.map_of_a = normalizers.Precompiled(map_of_a())
        self.lowercase = normalizers.Lowercase()
        self.split = pre_tokenizers.BertPreTokenizer()
        self.byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
        self.capital_class = pre_tokenizers.Split(Regex(r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"), "removed")
        self.small_class = pre_tokenizers.Split(Regex(r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"), "removed")
        self.word = Tokenizer(WordPiece({"[UNK]": 0}, unk_token="[UNK]"))
        self.word.add_tokens([AddedToken("\U0010fffd", single_word=True, normalized=False)])

    def dropped(self, c):
        return self.clean.normalize_str(f"a{chr(c)}b") == "ab"

    def punctuation(self, c):
        return len(self.split.pre_tokenize_str(f"a{chr(c)}b")) == 3

    def mark(self, c):
        return self.nfd.normalize_str(chr(c)) == chr(c) and self.strip.normalize_str(chr(c)) == ""

    def extends(self, c):
        return self.map_of_a.normalize_str("a" + chr(c)) == "X"

    def prepends(self, c):
        """The letter and its accent are no grapheme by themselves: the accent stays."""
        return not self.extends(c) and self.map_of_a.normalize_str(chr(c) + "a\u0301") == chr(c) + "X\u0301"

    def word_character(self, c):
        return len(self.word.encode(f"{chr(c)}\U0010fffd").ids) < 2

    def joins(self, before, c):
        """The expression of ByteLevel finds c in one piece with what is before it."""
        return len(self.byte_level.pre_tokenize_str(before + chr(c))) == 1

    def letter(self, c):
        return self.joins("a", c)

    def number(self, c):
        return self.joins("1", c)

    def capital(self, c):
        return not self.capital_class.pre_tokenize_str(chr(c))

    def small(self, c):
        return not self.small_class.pre_tokenize_str(chr(c))

    def regex_space(self, c):
        return not (self.joins("!", c) or self.letter(c) or self.number(c))

    def lower(self, c):
        return self.lowercase.normalize_str(chr(c))

    def decompose(self, c):
        return self.nfd.normalize_str(chr(c))

    def combining_class(self, c, samples):
        """By where c sorts among one mark of each class; `samples` maps class to mark, ascending."""
        if self.starter(c):
            return 0
        for value, mark in samples.items():
            if not self._moves(chr(c), ord(mark)) and not self._moves(mark, c):
                return value
        raise SystemExit(f"no combining class found for U+{c:04X}")

    def starter(self, c):
        """Neither of a class below 230 nor above 1."""
        return not self._moves("\u0301", c) and not self._moves(chr(c), 0x334)

    def _moves(self, first, second):
        return self.nfd.normalize_str(first + chr(second)) != first + chr(second)


def is_dropped(source, c):
    return source.category(c) in ("Cc", "Cf", "Co") and c not in (9, 10, 13)


def is_punctuation(source, c):
    return source.category(c)[0] == "P"


def is_mark(source, c):
    return source.category(c) == "Mn"


def is_word_character(source, c):
    return source.category(c)[0] in "LM" or source.category(c) in ("Nd", "Nl", "Pc")


def is_letter(source, c):
    return source.category(c)[0] == "L"


def is_number(source, c):
    return source.category(c)[0] == "N"


def is_capital(source, c):
    return source.category(c)[0] == "M" or source.category(c) in ("Lu", "Lt", "Lm", "Lo")


def is_small(source, c):
    return source.category(c)[0] == "M" or source.category(c) in ("Ll", "Lm", "Lo")


@dataclass
class Override:
    first: int
    last: int
    value: int


def ranges(values):
    """{scalar: value} as ranges of equal values."""
    result = []
    for c, value in sorted(values.items()):
        if result and result[-1].last == c - 1 and result[-1].value == value:
            result[-1].last = c
        else:
            result.append(Override(c, c, value))
    return result


def disagreements(truth, rule, sources, scalars):
    """Where some version of the library gives another answer than the truth: the truth."""
    return ranges({c: int(truth(c)) for c in scalars if any(rule(s, c) != truth(c) for s in sources)})


def combining_classes(truth, sources):
    marks = [c for c in SCALARS if truth.decompose(c) == chr(c) and any(s.combining_class(c) for s in sources)]
    samples = {sources[0].combining_class(c): chr(c) for c in reversed(marks) if not truth.starter(c)}
    samples = dict(sorted(samples.items()))
    known = {c: truth.combining_class(c, samples) for c in marks}
    return ranges({c: value for c, value in known.items() if any(s.combining_class(c) != value for s in sources)})


def decompositions(truth, sources):
    wrong = [c for c in SCALARS if any(s.decompose(c) != truth.decompose(c) for s in sources)]
    if whole := [c for c in wrong if truth.decompose(c) != chr(c)]:
        raise SystemExit(f"decompositions of their own: {whole}; the table cannot say that")
    return ranges({c: 0 for c in wrong})


def lowercase(truth, sources):
    """Constant distances; a range of pairs (upper, lower, upper, ...) is one range a character."""
    wrong = {}
    for c in SCALARS:
        lower = truth.lower(c)
        if c != 0x130 and any(s.lower(c) != lower for s in sources):
            if len(lower) != 1:
                raise SystemExit(f"U+{c:04X} has a lowercase of {len(lower)} characters; the table cannot say that")
            wrong[c] = ord(lower) - c
    return ranges(wrong)


def table(name, comment, rows):
    print(f"\n// {comment}")
    print(f"inline constexpr std::array<Override, {len(rows)}> {name}{{{{")
    print(", ".join(f"{{0x{r.first:X}, 0x{r.last:X}, {r.value}}}" for r in rows))
    print("}};")


def main():
    utf8proc, truth = Utf8proc(), Truth()
    sources = [utf8proc, Newest()]
    print("// SPDX-License-Identifier: Apache-2.0")
    print("// Written by tools/make_unicode_overrides.py: where the Python package `tokenizers`, which is the definition, and")
    print("// utf8proc disagree. Compared on every scalar value:")
    print(f"// tokenizers {tokenizers.__version__}; utf8proc of Unicode {utf8proc.version}; and Unicode "
          f"{unicodedata2.unidata_version}, for newer versions of utf8proc.")
    print("#pragma once\n#include <array>\n\nnamespace stof::unicode {\n")
    print("struct Override {\n  char32_t first, last;\n  int value;\n};")
    spaces = [c for c in SCALARS if (truth.clean.normalize_str(f"a{chr(c)}b") == "a b") and c not in WHITE_SPACE]
    if spaces or {c for c in SCALARS if truth.regex_space(c)} != WHITE_SPACE:
        raise SystemExit(f"white space is not the property: {spaces}")
    table("kDropped", "Dropped by clean_text: 1, kept: 0.", disagreements(truth.dropped, is_dropped, sources, SCALARS))
    above_ascii = [c for c in SCALARS if c > 127]
    table("kPunctuation", "Punctuation above ASCII: 1 or 0.",
          disagreements(truth.punctuation, is_punctuation, sources, above_ascii))
    table("kMark", "A mark that strip_accents removes: 1 or 0.",
          disagreements(truth.mark, is_mark, sources, [c for c in SCALARS if truth.decompose(c) == chr(c)]))
    table("kWordCharacter", "A word character for single_word: 1 or 0.",
          disagreements(truth.word_character, is_word_character, sources, SCALARS))
    table("kLetter", r"\p{L} of the byte-level split: 1 or 0.", disagreements(truth.letter, is_letter, sources, SCALARS))
    table("kNumber", r"\p{N} of the byte-level split: 1 or 0.", disagreements(truth.number, is_number, sources, SCALARS))
    table("kCapital", r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] of an expression: 1 or 0.", disagreements(truth.capital, is_capital, sources, SCALARS))
    table("kSmall", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}] of an expression: 1 or 0.", disagreements(truth.small, is_small, sources, SCALARS))
    table("kCombiningClass", "The canonical combining class.", combining_classes(truth, sources))
    table("kNotDecomposed", "Has a canonical decomposition that is not applied.", decompositions(truth, sources))
    table("kLower", "Distance to the lowercase letter (U+0130, which has two characters, is not in the table).",
          lowercase(truth, sources))
    table("kExtends", "One grapheme with a letter before it: 1 or 0; compared with the first of these versions alone.",
          disagreements(truth.extends, lambda source, c: source.extends(c), sources[:1], SCALARS))
    table("kPrepends", "One grapheme with a letter behind it, likewise.",
          disagreements(truth.prepends, lambda source, c: source.prepends(c), sources[:1], SCALARS))
    print("\n}  // namespace stof::unicode")


if __name__ == "__main__":
    main()
