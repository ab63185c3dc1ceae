// SPDX-License-Identifier: Apache-2.0
#include "src/model/wordpiece.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/model/unicode.h"

namespace stof {

WordPiece::WordPiece(const std::vector<Piece>& pieces, const WordPieceOptions& options)
    : trie_(pieces),
      unknown_(trie_.find(options.unknown_token).value_or(PieceTrie::kNone)),
      continuation_(trie_.walk(PieceTrie::kRoot, options.continuation_prefix)),
      max_characters_(static_cast<std::size_t>(options.max_characters)) {
  STOF_CHECK(unknown_ != PieceTrie::kNone);
  for (std::size_t byte = 0; byte < kinds_.size(); ++byte)
    kinds_[byte] = byte < 0x80 ? kind_of(static_cast<char32_t>(byte)) : Kind::above_ascii;
}

WordPiece::Kind WordPiece::kind_of(char32_t c) {
  if (unicode::is_white_space(c)) return Kind::white_space;
  return unicode::is_punctuation(c) ? Kind::punctuation : Kind::word;
}

void WordPiece::append_ids(std::string_view text, std::vector<std::int32_t>& ids) const {
  std::size_t word = 0;  // where the current word begins
  for (std::size_t i = 0; i < text.size();) {
    Kind kind = kinds_[static_cast<unsigned char>(text[i])];
    std::size_t bytes = 1;
    if (kind == Kind::above_ascii) {
      const unicode::Decoded decoded = unicode::decode(text.data() + i);
      kind = kind_of(decoded.scalar);
      bytes = decoded.bytes;
    }
    if (kind != Kind::word) {
      append_word(text.substr(word, i - word), ids);
      if (kind == Kind::punctuation) append_word(text.substr(i, bytes), ids);
      word = i + bytes;
    }
    i += bytes;
  }
  append_word(text.substr(word), ids);
}

bool WordPiece::too_long(std::string_view word) const {
  if (word.size() <= max_characters_) return false;
  const auto begins_character = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; };
  return static_cast<std::size_t>(std::count_if(word.begin(), word.end(), begins_character)) > max_characters_;
}

// A word with a part that no piece begins is unknown as a whole. A long one is not matched at all: with a piece of its
// length in the vocabulary each of its characters may be looked at once for each.
void WordPiece::append_word(std::string_view word, std::vector<std::int32_t>& ids) const {
  if (word.empty()) return;
  if (too_long(word)) return ids.push_back(unknown_);
  const std::size_t before = ids.size();
  std::size_t begin = 0;
  for (std::int32_t from = PieceTrie::kRoot; begin < word.size() && from != PieceTrie::kNone; from = continuation_) {
    const PieceTrie::Match match = trie_.longest(from, word, begin);
    if (match.bytes == 0) break;
    ids.push_back(match.id);
    begin += match.bytes;
  }
  if (begin == word.size()) return;
  ids.resize(before);
  ids.push_back(unknown_);
}

}  // namespace stof
