// SPDX-License-Identifier: Apache-2.0
// How many row blocks have how many entries, counted one by one and kept as a short histogram.
#pragma once
#include <cstdint>
#include <vector>

#include "src/mask/stats.h"

namespace stof {

struct RowBlockCost {
  std::int64_t full = 0, partial = 0;
  std::int64_t entries() const { return full + partial; }
  friend bool operator==(const RowBlockCost&, const RowBlockCost&) = default;
};

// Row blocks of each cost.
class RowBlockCosts {
 public:
  void add(const RowBlockCost& cost, std::int64_t count);
  // At most 64 bins of neighbouring costs, ascending by entries; totals of full and partial entries are kept.
  std::vector<BlockStats::Bin> bins();

 private:
  struct Counted {
    RowBlockCost cost;
    std::int64_t count;
  };
  void sort();  // by entries, each cost once

  // As they came. Sorted whenever there are twice as many as there were different ones: few row blocks are alike in
  // turn, and a tree takes longer to find a place than all of them to be sorted.
  std::vector<Counted> counted_;
  std::size_t most_ = 4096;
};

// Items and heads of each group.
std::vector<std::int64_t> weights_of_groups(const BoundMask& mask);

}  // namespace stof
