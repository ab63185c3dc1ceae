// SPDX-License-Identifier: Apache-2.0
#include "src/base/printable.h"

#include <fmt/format.h>

namespace stof {
namespace {

// How many bytes the control character at this place has; 0: there is none.
std::size_t control_bytes(const std::string& text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if ((byte(at) < 0x20 && text[at] != '\n' && text[at] != '\t') || byte(at) == 0x7F) return 1;
  const bool is_second_set = byte(at) == 0xC2 && at + 1 < text.size() && byte(at + 1) >= 0x80 && byte(at + 1) <= 0x9F;
  return is_second_set ? 2 : 0;  // U+0080 to U+009F in UTF-8
}

}  // namespace

std::string printable(std::string text) {
  std::string shown;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = control_bytes(text, at);
    if (bytes == 0) {
      ++at;
      continue;
    }
    shown.append(text, done, at - done);
    for (done = at + bytes; at < done; ++at) shown += fmt::format("\\x{:02X}", static_cast<unsigned char>(text[at]));
  }
  if (done == 0) return text;
  return shown.append(text, done);
}

}  // namespace stof
