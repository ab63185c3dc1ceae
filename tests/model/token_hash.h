// SPDX-License-Identifier: Apache-2.0
// The hash in which references of tokenizers are stored (tools/make_token_reference.py): FNV-1a over 64-bit words, a
// sequence at a time.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <type_traits>

namespace stof {

class TokenHash {
 public:
  template <class Sequence>
  void add(const Sequence& words) {
    for (const auto word : words) step(static_cast<std::make_unsigned_t<std::decay_t<decltype(word)>>>(word));
    step(0xFFFFFFFF);
  }
  std::string hex() const { return fmt::format("{:016x}", value_); }

 private:
  void step(std::uint64_t word) { value_ = (value_ ^ word) * 0x100000001B3; }
  std::uint64_t value_ = 0xCBF29CE484222325;
};

}  // namespace stof
