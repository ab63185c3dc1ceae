// SPDX-License-Identifier: Apache-2.0
#include "src/model/marked_spaces.h"

#include <algorithm>

#include "src/base/error.h"

namespace stof {
namespace {

constexpr std::string_view kMark = "\xe2\x96\x81";

}  // namespace

bool needs_mark(std::string_view part, Prepend scheme, bool begins_text) {
  if (part.starts_with(' ') || part.starts_with(kMark)) return false;
  switch (scheme) {
    case Prepend::never: return false;
    case Prepend::first: return begins_text;
    case Prepend::always: return true;
  }
  STOF_CHECK(false);
}

void append_marked(std::string_view part, bool mark_before, std::string& out) {
  if (mark_before) out += kMark;
  while (!part.empty()) {
    const std::size_t bytes = std::min(part.find(' '), part.size());
    out += part.substr(0, bytes);
    if (bytes < part.size()) out += kMark;
    part.remove_prefix(std::min(bytes + 1, part.size()));
  }
}

}  // namespace stof
