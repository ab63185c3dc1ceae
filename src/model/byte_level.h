// SPDX-License-Identifier: Apache-2.0
// Text to token ids as in GPT-2 and RoBERTa: words with the space before them, and byte pairs within a word. Every text
// has ids, for every byte has one.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/model/byte_pairs.h"

namespace stof {

struct ByteLevelOptions {
  std::array<std::int32_t, 256> bytes{};  // the id of each byte
  std::vector<Merge> merges;              // first come, first merged
  bool add_prefix_space = false;          // before a text that does not begin with one
};

class ByteLevel {
 public:
  explicit ByteLevel(const ByteLevelOptions& options)
      : pairs_(options.bytes, options.merges), add_prefix_space_(options.add_prefix_space) {}

  // `text` is well-formed UTF-8.
  void append_ids(std::string_view text, std::vector<std::int32_t>& ids) const;

  // Vocabularies write bytes as characters that can be seen: printable ones of Latin-1 as they are, the other 68 as
  // U+0100 on.
  static std::string token_of(unsigned char byte);

 private:
  BytePairs pairs_;
  bool add_prefix_space_;
};

// The bytes of the first word of `text`, which is not empty: what the expression
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// of GPT-2 matches there.
std::size_t first_word(std::string_view text);

}  // namespace stof
