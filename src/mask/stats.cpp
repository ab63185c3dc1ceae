// SPDX-License-Identifier: Apache-2.0
#include "src/mask/stats.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/mask/cell_scan.h"
#include "src/mask/row_block_costs.h"

namespace stof {
namespace {

constexpr int kBase = 64;  // one pass over 64 x 64 cells serves every block size that is a multiple
constexpr std::int64_t kMostKeys = std::int64_t{1} << 30;  // layouts have 32-bit keys, and a row takes a byte a key
constexpr double kMostBlocks = 17179869184.0;              // 2^34 cells: minutes of scanning, and gigabytes of layout

// Counts of one block size, over (item, head) pairs.
struct Tally {
  BlockSize size;
  double empty = 0, partial = 0, full = 0, touched_pairs = 0;
  std::int64_t heaviest = 0;
  RowBlockCosts costs = {};
};

// The kinds of one row of blocks, put together from bands of cells.
class RowOfBlocks {
 public:
  RowOfBlocks(BlockSize size, int cell, std::int64_t keys)
      : cells_per_block_(size.block_kv / cell),
        size_(size),
        keys_(keys),
        blocks_(static_cast<std::size_t>(ceil_div(keys, size.block_kv))) {}

  void reset() {
    for (const std::int64_t block : touched_) blocks_[static_cast<std::size_t>(block)] = {};
    touched_.clear();
    rows_ = 0;
    cell_bands_ = 0;
  }

  void add(const CellScan& scan, std::int64_t rows) {
    rows_ += rows;
    ++cell_bands_;
    for (const CellRun& run : scan.runs())
      for (std::int64_t block = run.begin / cells_per_block_; block * cells_per_block_ < run.end; ++block) {
        Block& at = blocks_[static_cast<std::size_t>(block)];
        if (!at.touched) touched_.push_back(block);
        at.touched = true;
        if (run.full)
          at.full_cells +=
              intersect({run.begin, run.end}, {block * cells_per_block_, (block + 1) * cells_per_block_}).size();
      }
  }

  void count(Tally& tally, std::int64_t weight) const {
    RowBlockCost cost;
    double touched_keys = 0;
    for (const std::int64_t block : touched_) {
      const std::int64_t keys = std::min<std::int64_t>(size_.block_kv, keys_ - block * size_.block_kv);
      const std::int64_t cells =
          keys == size_.block_kv ? cells_per_block_ : ceil_div(keys, size_.block_kv / cells_per_block_);
      (blocks_[static_cast<std::size_t>(block)].full_cells == cells * cell_bands_ ? cost.full : cost.partial) += 1;
      touched_keys += static_cast<double>(keys);
    }
    const auto times = static_cast<double>(weight);
    tally.full += times * static_cast<double>(cost.full);
    tally.partial += times * static_cast<double>(cost.partial);
    tally.empty += times * static_cast<double>(static_cast<std::int64_t>(blocks_.size()) - cost.full - cost.partial);
    tally.touched_pairs += times * touched_keys * static_cast<double>(rows_);
    tally.heaviest = std::max(tally.heaviest, cost.full + cost.partial);
    tally.costs[cost] += weight;
  }

 private:
  struct Block {
    bool touched = false;
    std::int64_t full_cells = 0;
  };
  std::int64_t cells_per_block_;
  BlockSize size_;
  std::int64_t keys_;
  std::vector<Block> blocks_;
  std::vector<std::int64_t> touched_;
  std::int64_t rows_ = 0, cell_bands_ = 0;
};

struct Totals {
  double allowed = 0;
  std::int64_t empty_rows = 0;
};

// One pass over bands of band.block_q rows and cells of band.block_kv keys, for tallies of multiples of it.
Totals pass(const BoundMask& mask, BlockSize band, std::span<Tally> tallies, std::span<const std::int64_t> weights) {
  const MaskExtent& extent = mask.extent();
  Totals totals;
  CellScan scan(mask, band.block_kv);
  std::vector<RowOfBlocks> rows_of_blocks;
  for (const Tally& tally : tallies) rows_of_blocks.emplace_back(tally.size, band.block_kv, extent.keys);
  for (int group = 0; group < mask.groups(); ++group) {
    const std::int64_t weight = weights[static_cast<std::size_t>(group)];
    const Range positions = {extent.offset(), extent.keys};
    for (std::int64_t p = floor_div(positions.begin, band.block_q) * band.block_q; p < positions.end;
         p += band.block_q) {
      const Range inside = intersect({p, p + band.block_q}, positions);
      scan.scan(group, {inside.begin - extent.offset(), inside.end - extent.offset()});
      totals.allowed += static_cast<double>(weight) * static_cast<double>(scan.allowed_pairs());
      totals.empty_rows += weight * scan.empty_row_count();
      for (std::size_t t = 0; t < tallies.size(); ++t) {
        rows_of_blocks[t].add(scan, inside.size());
        const std::int64_t end = p + band.block_q;
        if (end < positions.end && floor_div(end, tallies[t].size.block_q) * tallies[t].size.block_q != end) continue;
        rows_of_blocks[t].count(tallies[t], weight);
        rows_of_blocks[t].reset();
      }
    }
  }
  return totals;
}

void check(const MaskExtent& extent, int groups, std::span<const BlockSize> sizes) {
  for (const BlockSize& size : sizes)
    if (size.block_q < 1 || size.block_q > 256 || size.block_kv < 1 || size.block_kv > 256)
      fail(ErrorKind::invalid_argument, "block size {} x {}; accepted: 1 to 256 each", size.block_q, size.block_kv);
  if (extent.queries > kMostKeys || extent.keys > kMostKeys)
    fail(ErrorKind::unsupported, "a mask of {} queries and {} keys; at most {} of each are planned", extent.queries,
         extent.keys, kMostKeys);
  const double blocks =
      static_cast<double>(ceil_div(extent.queries, kBase)) * static_cast<double>(ceil_div(extent.keys, kBase)) * groups;
  if (blocks > kMostBlocks)
    fail(ErrorKind::unsupported,
         "a mask of {} queries and {} keys has {:.3g} blocks of 64 x 64; at most {:.3g} are planned", extent.queries,
         extent.keys, blocks, kMostBlocks);
}

}  // namespace

MaskStats measure(const BoundMask& mask, std::span<const BlockSize> sizes) {
  const MaskExtent& extent = mask.extent();
  check(extent, mask.groups(), sizes);
  const std::vector<std::int64_t> weights = weights_of_groups(mask);
  const auto shares_base = [](const BlockSize& size) {
    return size.block_q % kBase == 0 && size.block_kv % kBase == 0;
  };
  std::vector<Tally> shared, tallies;
  for (const BlockSize& size : sizes)
    if (shares_base(size)) shared.push_back({.size = size});
  const Totals totals = pass(mask, {kBase, kBase}, shared, weights);
  auto next = shared.begin();
  for (const BlockSize& size : sizes) {
    if (shares_base(size)) {
      tallies.push_back(std::move(*next++));
      continue;
    }
    tallies.push_back({.size = size});
    pass(mask, size, std::span(&tallies.back(), 1), weights);
  }

  const double pairs = static_cast<double>(extent.queries) * static_cast<double>(extent.keys) *
                       static_cast<double>(extent.batch * extent.heads);
  MaskStats stats{.extent = extent,
                  .groups = mask.groups(),
                  .density = pairs > 0 ? totals.allowed / pairs : 0,
                  .allowed_pairs = totals.allowed,
                  .empty_rows = totals.empty_rows};
  for (const Tally& tally : tallies) {
    const double blocks = std::max(tally.empty + tally.partial + tally.full, 1.0);
    stats.blocks.push_back({.block_q = tally.size.block_q,
                            .block_kv = tally.size.block_kv,
                            .empty = tally.empty / blocks,
                            .partial = tally.partial / blocks,
                            .full = tally.full / blocks,
                            .touched_density = tally.touched_pairs > 0 ? totals.allowed / tally.touched_pairs : 0,
                            .heaviest = tally.heaviest,
                            .row_blocks = bins_of(tally.costs)});
  }
  return stats;
}

}  // namespace stof
