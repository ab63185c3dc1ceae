// SPDX-License-Identifier: Apache-2.0
// How many row blocks have how many entries, counted one by one and kept as a short histogram.
#pragma once
#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "src/mask/stats.h"

namespace stof {

struct RowBlockCost {
  std::int64_t full = 0, partial = 0;
  friend auto operator<=>(const RowBlockCost&, const RowBlockCost&) = default;
};
using RowBlockCosts = std::map<RowBlockCost, std::int64_t>;  // row blocks of each cost

// At most 64 bins of neighbouring costs, ascending by entries; totals of full and partial entries are kept.
std::vector<BlockStats::Bin> bins_of(const RowBlockCosts& costs);

// Items and heads of each group.
std::vector<std::int64_t> weights_of_groups(const BoundMask& mask);

}  // namespace stof
