// SPDX-License-Identifier: Apache-2.0
// BERT's text normalisation: clean, put spaces around ideographs, strip accents, lowercase; in this order.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace stof {

struct NormalizerOptions {
  bool clean_text = true;
  bool handle_chinese_chars = true;
  bool strip_accents = true;
  bool lowercase = true;
};

class Normalizer {
 public:
  explicit Normalizer(const NormalizerOptions& options);

  // Appends the normalised text to out. `text` is well-formed UTF-8, and so is what is appended.
  void append(std::string_view text, std::string& out) const;

 private:
  class Marks;
  void append_ascii(std::string_view text, std::string& out) const;
  bool keeps_any(std::string_view ascii) const;
  void append_scalar(char32_t c, std::string& out, Marks& marks) const;
  void append_lowered(char32_t c, std::string& out) const;
  char ascii(unsigned char byte) const;

  NormalizerOptions options_;
  std::array<char, 128> ascii_;  // what each ASCII character becomes; kDropped: nothing
};

}  // namespace stof
