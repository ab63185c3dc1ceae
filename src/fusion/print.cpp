// SPDX-License-Identifier: Apache-2.0
#include "src/fusion/print.h"

#include <fmt/format.h>

namespace stof {

std::string brackets(const Blocks& blocks, std::size_t kind, const FusionSegment& segment) {
  std::string text;
  for (const Operator& op : blocks.view(kind, segment, 0).operators)
    text += fmt::format("{}{}", text.empty() ? "[" : " ", op.name);
  return text + ']';
}

std::string to_text(const Blocks& blocks, const Scheme& scheme) {
  std::string text;
  for (std::size_t kind = 0; kind < scheme.bits.size(); ++kind) {
    const FusionBlock& block = blocks.kinds()[kind];
    text += fmt::format("{} x {}  {} ", block.name, block.starts.size(), scheme.bits[kind]);
    for (const FusionSegment& segment : segments_of(scheme.bits[kind])) text += ' ' + brackets(blocks, kind, segment);
    text += '\n';
  }
  return text;
}

}  // namespace stof
