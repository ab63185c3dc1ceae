// SPDX-License-Identifier: Apache-2.0
// Schemes for people.
#pragma once
#include <string>

#include "src/fusion/rules.h"

namespace stof {

// A line for each kind of block: "encoder.layer.* x 12  0011  [matmul bias] [add norm]".
std::string to_text(const Blocks& blocks, const Scheme& scheme);
// "[matmul bias]"
std::string brackets(const Blocks& blocks, std::size_t kind, const FusionSegment& segment);

}  // namespace stof
