// SPDX-License-Identifier: Apache-2.0
#include "src/model/marked_spaces.h"

#include <algorithm>

#include "src/base/error.h"

namespace stof {
bool needs_mark(std::string_view part, Prepend scheme, bool begins_text) {
  if (part.starts_with(' ') || part.starts_with(kSpaceMark)) return false;
  switch (scheme) {
    case Prepend::never: return false;
    case Prepend::first: return begins_text;
    case Prepend::always: return true;
  }
  STOF_CHECK(false);
}

void append_marked(std::string_view part, bool mark_before, std::string& out) {
  if (mark_before) out += kSpaceMark;
  while (!part.empty()) {
    const std::size_t bytes = std::min(part.find(' '), part.size());
    out += part.substr(0, bytes);
    if (bytes < part.size()) out += kSpaceMark;
    part.remove_prefix(std::min(bytes + 1, part.size()));
  }
}

void append_unmarked(std::string_view text, std::string_view space, std::string& out) {
  for (std::size_t mark; (mark = text.find(kSpaceMark)) != text.npos; text.remove_prefix(mark + kSpaceMark.size()))
    out.append(text.substr(0, mark)).append(space);
  out += text;
}

}  // namespace stof
