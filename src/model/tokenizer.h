// SPDX-License-Identifier: Apache-2.0
// Text to token ids: WordPiece as in BERT, from tokenizer.json or vocab.txt, or, from tokenizer.json, BPE on bytes as
// in GPT-2, Llama 3 and Qwen 2 or on characters as in Llama 2 and Mistral 7B; the same ids as the Python package
// `tokenizers` gives.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

namespace stof {

class Tokenizer {
 public:
  // Throws bad_file for what is missing or broken, unsupported for what is not understood, by name.
  static Tokenizer load(const std::filesystem::path& folder);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;

  // Ids with the special tokens ([CLS] ... [SEP]), not truncated. Text that is not UTF-8 throws invalid_argument with
  // the offset of the byte. Thread-safe.
  std::vector<std::int32_t> encode(std::string_view text) const;

  struct Truncated {
    std::vector<std::int32_t> ids;
    bool truncated = false;
  };
  // At most max_tokens ids, special tokens included; throws invalid_argument when not even these fit, and unsupported
  // where the files want the text's beginning cut off instead of its end.
  Truncated encode(std::string_view text, std::int64_t max_tokens) const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace stof
