// SPDX-License-Identifier: Apache-2.0
#include "src/base/printable.h"

#include <fmt/format.h>

#include "src/base/control_bytes.h"

namespace stof {

std::string printable(std::string text) {
  std::string shown;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = text[at] == '\n' || text[at] == '\t' ? 0 : control_bytes(text, at);
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
