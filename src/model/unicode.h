// SPDX-License-Identifier: Apache-2.0
// UTF-8 and the properties of characters, as the Python package `tokenizers` knows them: utf8proc with the overrides
// of unicode_overrides.h. A char32_t here is always a Unicode scalar value.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace stof::unicode {

// Offset of the first byte that does not belong to well-formed UTF-8 (Unicode 15, table 3-7), or npos.
std::size_t find_invalid(std::string_view text);

struct Decoded {
  char32_t scalar;
  std::size_t bytes;
};
// The scalar that begins at `at`, in well-formed UTF-8.
Decoded decode(const char* at);
// The scalar that ends before text's end; text is well-formed and not empty.
Decoded decode_last(std::string_view text);
void append(std::string& text, char32_t scalar);

inline constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD
// Appends bytes as text: each longest part of a character that no character goes on with becomes U+FFFD (Unicode 15,
// section 3.9, maximal subparts). Returns how many of them: less than all where the last may become a character yet.
std::size_t append_repaired(std::string& text, std::string_view bytes);

// Of the grapheme cluster (Unicode, annex 29, extended) that begins the text, well-formed UTF-8 and not empty.
std::size_t grapheme_bytes(std::string_view text);

bool is_white_space(char32_t c);      // the property White_Space
bool is_dropped(char32_t c);          // by clean_text: NUL, U+FFFD, control, format and private-use characters
bool is_chinese(char32_t c);          // the ideographs that BERT puts spaces around
bool is_punctuation(char32_t c);      // ASCII: also symbols such as $ + ~
bool is_nonspacing_mark(char32_t c);  // what strip_accents removes
bool is_word_character(char32_t c);   // \w of a regular expression
bool is_letter(char32_t c);           // \p{L} of a regular expression
bool is_number(char32_t c);           // \p{N}
bool may_be_capital(char32_t c);  // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]: capital letters, and those and marks without case
bool may_be_small(char32_t c);    // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
int combining_class(char32_t c);

// The lowercase of c; `second` is 0 but for U+0130.
struct Lower {
  char32_t first, second;
};
Lower lower(char32_t c);

// Calls body(word) for what stands between white space, of well-formed UTF-8.
template <class Body>
void for_each_word(std::string_view text, const Body& body) {
  for (std::size_t begin = 0, at = 0; begin < text.size();) {
    const bool ends = at == text.size();
    const Decoded next = ends ? Decoded{U' ', 1} : decode(text.data() + at);
    at += next.bytes;
    if (!is_white_space(next.scalar)) continue;
    const std::size_t end = at - next.bytes;
    if (end > begin) body(text.substr(begin, end - begin));
    begin = at;
  }
}

// Appends the text, well-formed UTF-8, composed canonically: form NFC.
void append_composed(std::string& out, std::string_view text);

// The canonical decomposition of c, in full: at most 4 scalars.
struct Decomposition {
  char32_t scalars[4];
  std::size_t count;
};
Decomposition decompose(char32_t c);

}  // namespace stof::unicode
