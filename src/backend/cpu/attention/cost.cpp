// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cpu/attention/cost.h"

#include <algorithm>

namespace stof::cpu {

BlockCost block_cost(const BlockSize& size, std::int64_t head_dim, DType) {
  const double pairs = static_cast<double>(size.block_q) * size.block_kv, d = static_cast<double>(head_dim);
  return {.row_block = 20.0 * size.block_q + 0.5 * size.block_q * d,
          .full = pairs * (0.4 + 0.036 * d),
          .partial = pairs * (0.4 + 0.027 * d)};
}

double predict_blocks(const AttentionProblem& problem, const BlockStats& stats, const DeviceCaps& caps) {
  const BlockCost cost = block_cost({stats.block_q, stats.block_kv}, problem.shape.head_dim, problem.shape.dtype);
  const double items = static_cast<double>(problem.shape.batch) / static_cast<double>(problem.stats.extent.batch);
  double total = 0, heaviest = 0;
  for (const BlockStats::Bin& bin : stats.row_blocks) {
    const double one = cost.row_block + bin.full * cost.full + bin.partial * cost.partial;
    total += one * static_cast<double>(bin.count) * items;
    heaviest = std::max(heaviest, one);
  }
  return std::max(total / caps.cores, heaviest) * 1e-3;
}

RowCost row_cost(std::int64_t head_dim, DType) {
  const double d = static_cast<double>(head_dim);
  return {.row = 60 + 0.4 * d, .key = 3.0 + 0.1 * d};
}

double predict_rows(const AttentionProblem& problem, const DeviceCaps& caps) {
  const RowCost cost = row_cost(problem.shape.head_dim, problem.shape.dtype);
  const double items = static_cast<double>(problem.shape.batch) / static_cast<double>(problem.stats.extent.batch);
  const double rows =
      items * static_cast<double>(problem.stats.extent.batch * problem.shape.heads * problem.shape.queries);
  return (rows * cost.row + problem.stats.allowed_pairs * items * cost.key) / caps.cores * 1e-3;
}

}  // namespace stof::cpu
