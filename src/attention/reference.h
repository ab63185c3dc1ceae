// SPDX-License-Identifier: Apache-2.0
// Attention by its definition: naive, in double, without blocks and without layouts. What every kernel is tested
// against.
#pragma once
#include <vector>

#include "src/backend/contract.h"

namespace stof {

struct ReferenceRow {
  std::vector<double> out;  // [head_dim]
  double lse = 0;
  double squared_weights = 0;  // the sum of the squares of the softmax
};

// Row `row` of one item and query head of a call; `mask` is bound to the item's own lengths.
ReferenceRow reference_attention(const BoundMask& mask, const AttentionCall& call, const AttentionItem& item,
                                 std::int64_t head, std::int64_t row);

}  // namespace stof
