// SPDX-License-Identifier: Apache-2.0
// What people are told on stderr.
#pragma once
#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "src/base/printable.h"

namespace stof::cli {

// A closed or full stderr loses the message, never the work: fmt::print would throw.
inline void say(const std::string& text) { std::fputs(printable(text).c_str(), stderr); }

// Messages show what was got, which may be an argument of 100 KB: of a long one the beginning and the end are left.
inline std::string shortened(const std::string& text) {
  constexpr std::size_t kLongest = 4000, kHead = 2000, kTail = 1000;
  if (text.size() <= kLongest) return text;
  const auto whole_character = [&](std::size_t at) {  // forward, past bytes that go on with one in UTF-8
    for (int i = 0; i < 3 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80; ++i) ++at;
    return at;
  };
  const std::size_t head = whole_character(kHead), tail = whole_character(text.size() - kTail);
  return fmt::format("{}... ({} bytes) ...{}", text.substr(0, head), tail - head, text.substr(tail));
}

}  // namespace stof::cli
