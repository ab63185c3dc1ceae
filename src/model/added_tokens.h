// SPDX-License-Identifier: Apache-2.0
// Tokens that are found in the text as a whole, before it is split into words: [MASK] and its like.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/model/piece_trie.h"

namespace stof {

struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space behind it
  bool normalized = false;   // is normalised, and looked for in the normalised text
  bool special = false;      // may be left out of texts that are made of ids
};

class AddedTokens {
 public:
  // `tokens` differ in content and none is empty; content is what to look for.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  // Calls on_text(string_view) and on_token(id) for the parts of text, in order. Leftmost first, then longest.
  template <class OnText, class OnToken>
  void split(std::string_view text, OnText&& on_text, OnToken&& on_token) const {
    Cursor cursor;
    std::size_t done = 0;
    while (const AddedToken* token = next(text, cursor)) {
      // White space that the token before took is not taken twice.
      const std::size_t begin = token->lstrip ? std::max(space_before(text, cursor.begin), done) : cursor.begin;
      const std::size_t end = token->rstrip ? space_behind(text, cursor.end) : cursor.end;
      if (end <= begin) continue;  // a token of white space, all of which was taken
      if (begin > done) on_text(text.substr(done, begin - done));
      on_token(token->id);
      done = end;
    }
    if (done < text.size()) on_text(text.substr(done));
  }

 private:
  struct Cursor {
    std::size_t begin = 0, end = 0;  // of the last match; the next one is looked for behind it
  };
  const AddedToken* next(std::string_view text, Cursor& cursor) const;
  std::size_t find_first_byte(std::string_view text, std::size_t from) const;
  static std::size_t space_before(std::string_view text, std::size_t end);
  static std::size_t space_behind(std::string_view text, std::size_t begin);

  std::vector<AddedToken> tokens_;
  PieceTrie trie_;  // its ids are indices of tokens_
  std::string first_bytes_;
};

}  // namespace stof
