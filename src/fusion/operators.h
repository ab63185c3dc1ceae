// SPDX-License-Identifier: Apache-2.0
// The operators of a block, in the order of the bits of its scheme. A node is one operator, but for attention, which is
// five: it is one kernel here, and shown as what it computes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "src/fusion/blocks.h"

namespace stof {

enum class Bound : std::uint8_t { memory, compute, attention };  // MI, CI, or both and by itself

struct Operator {
  std::size_t node = 0;  // in the block
  std::string_view name;
  Bound bound = Bound::memory;
};

std::vector<Operator> operators_of(const Graph& graph, const FusionBlock& kind);

}  // namespace stof
