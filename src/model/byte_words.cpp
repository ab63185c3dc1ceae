// SPDX-License-Identifier: Apache-2.0
#include "src/model/byte_words.h"

#include <bit>

#include "src/base/hash.h"
#include "src/model/byte_level.h"

namespace stof {

ByteWords::ByteWords(std::shared_ptr<const TokenTexts> texts, std::span<const TokenTexts::Token> tokens)
    : texts_(std::move(texts)), ids_(std::bit_ceil(2 * tokens.size() + 2), kNone) {
  std::string bytes;
  for (const TokenTexts::Token& token : tokens) {
    bytes.clear();
    if (!ByteLevel::append_bytes(token.text, bytes)) continue;
    std::size_t slot = first_slot(bytes);
    while (ids_[slot] != kNone) slot = (slot + 1) & (ids_.size() - 1);
    ids_[slot] = token.id;
  }
}

std::size_t ByteWords::first_slot(std::string_view bytes) const {
  return hash64(bytes.data(), bytes.size()) & (ids_.size() - 1);
}

std::optional<std::int32_t> ByteWords::find(std::string_view bytes) const {
  for (std::size_t slot = first_slot(bytes); ids_[slot] != kNone; slot = (slot + 1) & (ids_.size() - 1))
    if (ByteLevel::stands_for(texts_->find(ids_[slot])->text, bytes)) return ids_[slot];
  return {};
}

}  // namespace stof
