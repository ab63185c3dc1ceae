// SPDX-License-Identifier: Apache-2.0
// Words that are tokens as a whole, found by their bytes: a hash table of ids, whose texts are those that decoding
// needs.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "src/model/token_texts.h"

namespace stof {

class ByteWords {
 public:
  ByteWords() = default;  // none
  // Of `tokens`, which are among `texts`; those that stand for no bytes are left out. Ids differ.
  ByteWords(std::shared_ptr<const TokenTexts> texts, std::span<const TokenTexts::Token> tokens);

  bool empty() const { return ids_.empty(); }
  std::optional<std::int32_t> find(std::string_view bytes) const;

 private:
  static constexpr std::int32_t kNone = -1;
  std::size_t first_slot(std::string_view bytes) const;

  std::shared_ptr<const TokenTexts> texts_;
  std::vector<std::int32_t> ids_;  // at least half of the slots are free; their number is a power of two
};

}  // namespace stof
