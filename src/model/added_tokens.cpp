// SPDX-License-Identifier: Apache-2.0
#include "src/model/added_tokens.h"

#include "src/model/unicode.h"

namespace stof {
namespace {

std::vector<Piece> indexed(const std::vector<AddedToken>& tokens) {
  std::vector<Piece> pieces;
  for (const AddedToken& token : tokens) pieces.push_back({token.content, static_cast<std::int32_t>(pieces.size())});
  return pieces;
}

bool touches_word(std::string_view before, std::string_view behind) {
  return (!before.empty() && unicode::is_word_character(unicode::decode_last(before).scalar)) ||
         (!behind.empty() && unicode::is_word_character(unicode::decode(behind.data()).scalar));
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)), trie_(indexed(tokens_)) {
  for (const AddedToken& token : tokens_)
    if (first_bytes_.find(token.content[0]) == std::string::npos) first_bytes_ += token.content[0];
}

std::size_t AddedTokens::find_first_byte(std::string_view text, std::size_t from) const {
  // BERT's own all begin with a bracket, and looking for one byte is many times faster.
  return first_bytes_.size() == 1 ? text.find(first_bytes_[0], from) : text.find_first_of(first_bytes_, from);
}

const AddedToken* AddedTokens::next(std::string_view text, Cursor& cursor) const {
  for (std::size_t at = cursor.end; (at = find_first_byte(text, at)) != std::string_view::npos;) {
    const PieceTrie::Match match = trie_.longest(PieceTrie::kRoot, text, at);
    if (match.bytes == 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<std::size_t>(match.id)];
    cursor = {.begin = at, .end = at + match.bytes};
    if (!token.single_word || !touches_word(text.substr(0, at), text.substr(cursor.end))) return &token;
    at = cursor.end;
  }
  return nullptr;
}

std::size_t AddedTokens::space_before(std::string_view text, std::size_t end) {
  while (end > 0) {
    const auto [c, bytes] = unicode::decode_last(text.substr(0, end));
    if (!unicode::is_white_space(c)) break;
    end -= bytes;
  }
  return end;
}

std::size_t AddedTokens::space_behind(std::string_view text, std::size_t begin) {
  while (begin < text.size()) {
    const auto [c, bytes] = unicode::decode(text.data() + begin);
    if (!unicode::is_white_space(c)) break;
    begin += bytes;
  }
  return begin;
}

}  // namespace stof
