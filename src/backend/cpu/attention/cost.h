// SPDX-License-Identifier: Apache-2.0
// What the CPU kernels are predicted to take, from the statistics of a mask and one table of measured coefficients.
#pragma once
#include <array>

#include "src/backend/contract.h"

namespace stof::cpu {

inline constexpr std::array<BlockSize, 3> kBlockSizes{{{64, 64}, {64, 32}, {32, 64}}};

// Nanoseconds of one core: for a row-block, and for each of its entries.
struct BlockCost {
  double row_block, full, partial;
};
BlockCost block_cost(const BlockSize& size, std::int64_t head_dim, DType dtype);

// Of one core: for a row, and for each of its keys.
struct RowCost {
  double row, key;
};
RowCost row_cost(std::int64_t head_dim, DType dtype);

// Time of a call with every item at its full length, on caps.cores cores, the costliest row-blocks first.
double predict_blocks(const AttentionProblem& problem, const BlockStats& stats, const DeviceCaps& caps);
double predict_rows(const AttentionProblem& problem, const DeviceCaps& caps);

}  // namespace stof::cpu
