// SPDX-License-Identifier: Apache-2.0
// Text to token ids as in GPT-2, RoBERTa, Llama 3 and Qwen 2: words, and byte pairs within a word. Every text has ids,
// for every byte has one.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/model/byte_pairs.h"
#include "src/model/byte_words.h"
#include "src/model/word_split.h"

namespace stof {

struct ByteLevelOptions {
  std::array<std::int32_t, 256> bytes{};  // the id of each byte
  std::vector<Merge> merges;              // first come, first merged
  bool add_prefix_space = false;          // before a text that does not begin with one
  WordSplit split = WordSplit::gpt2;
  ByteWords words = {};  // that are not merged, but have an id
};

class ByteLevel {
 public:
  explicit ByteLevel(ByteLevelOptions options);

  // `text` is well-formed UTF-8.
  void append_ids(std::string_view text, std::vector<std::int32_t>& ids) const;

  // Vocabularies write bytes as characters that can be seen: printable ones of Latin-1 as they are, the other 68 as
  // U+0100 on.
  static std::string token_of(unsigned char byte);
  // Appends the bytes that a token stands for; nothing, and false, for a token with other characters.
  static bool append_bytes(std::string_view token, std::string& bytes);
  // Whether these are its bytes.
  static bool stands_for(std::string_view token, std::string_view bytes);

 private:
  std::array<std::int32_t, 256> bytes_;
  bool add_prefix_space_;
  WordSplit split_;
  ByteWords words_;
  BytePairs pairs_;
};

}  // namespace stof
