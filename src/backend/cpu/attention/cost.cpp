// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cpu/attention/cost.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "src/backend/cpu/attention/makespan.h"

namespace stof::cpu {
namespace {

// Waking and joining the threads of a parallel region.
constexpr double kForkUs = 4;

template <std::size_t kTerms>
double dot(const std::array<double, kTerms>& a, const std::array<double, kTerms>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

double items_per_measured(const AttentionProblem& problem) {
  return static_cast<double>(problem.shape.batch) / static_cast<double>(problem.stats.extent.batch);
}

// What an average block of this size has inside the problem. Rows are computed in panels, keys one by one: what a block
// has past them costs nothing.
BlockSize used_size(const AttentionProblem& problem, const BlockStats& stats) {
  const auto average = [](std::int64_t length, std::int64_t block) {
    const std::int64_t blocks = std::max<std::int64_t>(1, (length + block - 1) / block);
    return static_cast<int>((length + blocks / 2) / blocks);
  };
  const std::int64_t rows = (problem.shape.queries + kPartRows - 1) / kPartRows * kPartRows;
  return {average(rows, stats.block_q), average(problem.shape.keys, stats.block_kv)};
}

// The share of partial blocks in live cells was sampled at the first block size, of whole blocks. Larger ones are more
// often partial, but the live cells of the mask stay what they are.
double partial_live(const AttentionProblem& problem, const BlockStats& stats) {
  const BlockStats& sampled = problem.stats.blocks.front();
  if (stats.partial <= 0) return 1;
  const BlockSize used = used_size(problem, sampled);
  const double inside = double(used.block_q) * used.block_kv / (double(sampled.block_q) * sampled.block_kv);
  const double live = sampled.full + sampled.partial * std::min(1.0, problem.partial_live / inside);
  return std::clamp((live - stats.full) / stats.partial, 0.0, 1.0);
}

double spread_us(std::span<const Pieces> pieces, int cores, int parts) {
  double total = 0;
  for (const Pieces& same : pieces) total += same.cost * static_cast<double>(same.count);
  if (cores < 2) return total * 1e-3;
  return std::min(total * 1e-3, makespan(pieces, cores, parts) * 1e-3 + kForkUs);
}

}  // namespace

BlockCosts terms_of(const BlockWork& w) {
  return {w.row_blocks, w.rows_times_d, w.entries, w.keys_times_d, w.partial, w.pairs, w.pairs_times_d};
}

RowCosts terms_of(const RowWork& w) { return {w.rows, w.rows_times_d, w.keys, w.keys_times_d}; }

BlockWork block_work(const BlockSize& size, double full, double partial, double partial_live, std::int64_t head_dim) {
  const double d = static_cast<double>(head_dim), entries = full + partial;
  const double pairs = (full + partial * partial_live) * size.block_q * size.block_kv;
  return {.row_blocks = 1,
          .rows_times_d = size.block_q * d,
          .entries = entries,
          .keys_times_d = entries * size.block_kv * d,
          .partial = partial,
          .pairs = pairs,
          .pairs_times_d = pairs * d};
}

double block_ns(const BlockWork& work, DType dtype) { return dot(terms_of(work), costs_in_use().table.block(dtype)); }

RowWork row_work(double rows, double keys, std::int64_t head_dim) {
  const double d = static_cast<double>(head_dim);
  return {.rows = rows, .rows_times_d = rows * d, .keys = keys, .keys_times_d = keys * d};
}

double row_ns(const RowWork& work, DType dtype) { return dot(terms_of(work), costs_in_use().table.row(dtype)); }

BlockWork total_work(const AttentionProblem& problem, const BlockStats& stats) {
  const BlockSize size = used_size(problem, stats);
  const double live = partial_live(problem, stats);
  BlockWork total;
  for (const BlockStats::Bin& bin : stats.row_blocks) {
    const BlockWork one = block_work(size, bin.full, bin.partial, live, problem.shape.head_dim);
    const double count = static_cast<double>(bin.count) * items_per_measured(problem);
    total.row_blocks += count * one.row_blocks;
    total.rows_times_d += count * one.rows_times_d;
    total.entries += count * one.entries;
    total.keys_times_d += count * one.keys_times_d;
    total.partial += count * one.partial;
    total.pairs += count * one.pairs;
    total.pairs_times_d += count * one.pairs_times_d;
  }
  return total;
}

RowWork total_work(const AttentionProblem& problem) {
  const MaskExtent& extent = problem.stats.extent;
  const double items = items_per_measured(problem);
  return row_work(items * static_cast<double>(extent.batch * extent.heads * extent.queries),
                  items * problem.stats.allowed_pairs, problem.shape.head_dim);
}

double predict_blocks(const AttentionProblem& problem, const BlockStats& stats, const DeviceCaps& caps) {
  const BlockSize size = used_size(problem, stats);
  const double live = partial_live(problem, stats), items = items_per_measured(problem);
  std::vector<Pieces> pieces;
  for (const BlockStats::Bin& bin : stats.row_blocks)
    pieces.push_back(
        {.cost = block_ns(block_work(size, bin.full, bin.partial, live, problem.shape.head_dim), problem.shape.dtype),
         .count = static_cast<std::int64_t>(static_cast<double>(bin.count) * items)});
  return spread_us(pieces, caps.cores, std::max(1, size.block_q / kPartRows));
}

double predict_rows(const AttentionProblem& problem, const DeviceCaps& caps) {
  const AttentionShape& s = problem.shape;
  const std::int64_t count = s.batch * s.heads * ((s.queries + kRowsPerPiece - 1) / kRowsPerPiece);
  if (count == 0) return 0;
  const double total = row_ns(total_work(problem), s.dtype);
  const Pieces equal{.cost = total / static_cast<double>(count), .count = count};
  return spread_us({&equal, 1}, caps.cores, 1);
}

}  // namespace stof::cpu
