// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string_view>

namespace stof {

// How many bytes the control character at this place has (U+0000 to U+001F, U+007F to U+009F in UTF-8); 0: there is
// none.
inline std::size_t control_bytes(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(at) < 0x20 || byte(at) == 0x7F) return 1;
  const bool is_second_set = byte(at) == 0xC2 && at + 1 < text.size() && byte(at + 1) >= 0x80 && byte(at + 1) <= 0x9F;
  return is_second_set ? 2 : 0;
}

}  // namespace stof
