// SPDX-License-Identifier: Apache-2.0
// Normalised text to token ids: split at white space and around punctuation, then each word into its longest pieces.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/model/piece_trie.h"

namespace stof {

struct WordPieceOptions {
  std::string unknown_token = "[UNK]";
  std::string continuation_prefix = "##";
  std::int64_t max_characters = 100;  // a longer word is unknown
};

class WordPiece {
 public:
  // The unknown token is one of the pieces.
  WordPiece(const std::vector<Piece>& pieces, const WordPieceOptions& options);

  // `text` is well-formed UTF-8.
  void append_ids(std::string_view text, std::vector<std::int32_t>& ids) const;
  std::optional<std::int32_t> find(std::string_view token) const { return trie_.find(token); }

 private:
  enum class Kind : std::uint8_t { word, white_space, punctuation, above_ascii };
  static Kind kind_of(char32_t c);
  void append_word(std::string_view word, std::vector<std::int32_t>& ids) const;
  bool too_long(std::string_view word) const;

  PieceTrie trie_;
  std::int32_t unknown_;
  std::int32_t continuation_;  // where the pieces with the prefix begin, or kNone
  std::size_t max_characters_;
  std::array<Kind, 256> kinds_;  // of a byte
};

}  // namespace stof
