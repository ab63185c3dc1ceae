// SPDX-License-Identifier: Apache-2.0
// Text to token ids and back: WordPiece as in BERT, from tokenizer.json or vocab.txt, or, from tokenizer.json, BPE on
// bytes as in GPT-2, Llama 3 and Qwen 2 or on characters as in Llama 2 and Mistral 7B, or Unigram as in XLM-RoBERTa;
// the same ids as the Python package `tokenizers` gives, and the same texts.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stof {

struct TokenDecoder;

enum class SpecialTokens : std::uint8_t { skipped, kept };

struct DecodeOptions {
  SpecialTokens special = SpecialTokens::skipped;
};

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

  // The text of ids, by the `decoder` of tokenizer.json: always UTF-8. Throws invalid_argument for an id that has no
  // token, and unsupported where the decoder is not understood. Thread-safe. TokenStream does it id by id.
  std::string decode(std::span<const std::int32_t> ids, DecodeOptions options = {}) const;
  const TokenDecoder& decoder() const;  // lives as long as this, also when it is moved

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace stof
