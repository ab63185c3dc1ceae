// SPDX-License-Identifier: Apache-2.0
#include "src/mask/stats.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/mask/mask_bands.h"
#include "src/mask/row_block_costs.h"

namespace stof {
namespace {

// One pass over 64 x 64 cells serves every block size that is a multiple.
constexpr int kBase = MaskBands::kRows;
static_assert(MaskBands::kKeys == kBase);
constexpr std::int64_t kMostKeys = std::int64_t{1} << 30;  // layouts have 32-bit keys, and a row takes a byte a key
constexpr double kMostBlocks = 17179869184.0;              // 2^34 cells: minutes of scanning, and gigabytes of layout

// Counts of one block size, over (item, head) pairs.
struct Tally {
  BlockSize size;
  double empty = 0, partial = 0, full = 0, touched_pairs = 0;
  std::int64_t heaviest = 0;
  RowBlockCosts costs = {};
};

// The kinds of one row of blocks, put together from bands of cells. Runs stay runs: a row of blocks costs what its
// boundary does.
class RowOfBlocks {
 public:
  RowOfBlocks(BlockSize size, int cell, std::int64_t keys)
      : cells_per_block_(size.block_kv / cell), cell_(cell), size_(size), keys_(keys) {}

  void reset() {
    blocks_.clear();
    rows_ = 0;
    cell_bands_ = 0;
  }

  // cells: of the band.
  void add(const Outline& cells, std::int64_t rows) {
    rows_ += rows;
    ++cell_bands_;
    band_.clear();
    for (const Outline::Run& run : cells.runs()) add(run.cells, run.kind == BlockKind::full);
    if (blocks_.empty()) std::swap(blocks_, band_);
    else merge_band();
  }

  void count(Tally& tally, std::int64_t weight) const {
    RowBlockCost cost;
    std::int64_t touched_keys = 0;
    for (const Stretch& stretch : blocks_) {
      const std::int64_t blocks = stretch.end - stretch.begin;
      touched_keys += std::min(stretch.end * size_.block_kv, keys_) - stretch.begin * size_.block_kv;
      const std::int64_t full = stretch.full_cells == cells_per_block_ * cell_bands_ ? blocks : 0;
      const bool cut_is_full = full == 0 && stretch.end == all_blocks() && stretch.full_cells == cells_of_last();
      cost.full += full + (cut_is_full ? 1 : 0);
      cost.partial += blocks - full - (cut_is_full ? 1 : 0);
    }
    const auto times = static_cast<double>(weight);
    tally.full += times * static_cast<double>(cost.full);
    tally.partial += times * static_cast<double>(cost.partial);
    tally.empty += times * static_cast<double>(all_blocks() - cost.entries());
    tally.touched_pairs += times * static_cast<double>(touched_keys) * static_cast<double>(rows_);
    tally.heaviest = std::max(tally.heaviest, cost.entries());
    tally.costs.add(cost, weight);
  }

 private:
  // Touched blocks with so many full cells each, over the bands so far.
  struct Stretch {
    std::int64_t begin, end, full_cells;
  };

  std::int64_t all_blocks() const { return ceil_div(keys_, size_.block_kv); }
  // Of a last block that the keys cut off, when all of it is full.
  std::int64_t cells_of_last() const {
    return ceil_div(keys_ - (all_blocks() - 1) * size_.block_kv, cell_) * cell_bands_;
  }

  void add(Range cells, bool full) {
    if (cells_per_block_ == 1) return band_.push_back({cells.begin, cells.end, full ? 1 : 0});  // as mostly
    for (std::int64_t cell = cells.begin; cell < cells.end;) {
      const std::int64_t block = cell / cells_per_block_, whole = cells.end / cells_per_block_;
      const bool at_begin = block * cells_per_block_ == cell;
      const std::int64_t end = at_begin && block < whole ? whole : block + 1;
      const std::int64_t stop = std::min(cells.end, end * cells_per_block_);
      const std::int64_t full_cells = !full ? 0 : end > block + 1 ? cells_per_block_ : stop - cell;
      if (!band_.empty() && band_.back().end > block) band_.back().full_cells += full_cells;
      else band_.push_back({block, end, full_cells});
      cell = stop;
    }
  }

  // Adds up what two rows of stretches have in each block.
  void merge_band() {
    merged_.clear();
    auto a = blocks_.begin(), b = band_.begin();
    const auto take = [&](std::int64_t begin, std::int64_t end, std::int64_t full_cells) {
      if (!merged_.empty() && merged_.back().end == begin && merged_.back().full_cells == full_cells)
        merged_.back().end = end;
      else merged_.push_back({begin, end, full_cells});
    };
    while (a != blocks_.end() && b != band_.end()) {
      Stretch &first = a->begin <= b->begin ? *a : *b, &other = a->begin <= b->begin ? *b : *a;
      if (first.begin < other.begin) {
        const std::int64_t end = std::min(first.end, other.begin);
        take(first.begin, end, first.full_cells);
        first.begin = end;
      } else {
        const std::int64_t end = std::min(first.end, other.end);
        take(first.begin, end, first.full_cells + other.full_cells);
        first.begin = other.begin = end;
      }
      if (a->begin == a->end) ++a;
      if (b->begin == b->end) ++b;
    }
    for (; a != blocks_.end(); ++a) take(a->begin, a->end, a->full_cells);
    for (; b != band_.end(); ++b) take(b->begin, b->end, b->full_cells);
    std::swap(blocks_, merged_);
  }

  std::int64_t cells_per_block_, cell_;
  BlockSize size_;
  std::int64_t keys_;
  std::vector<Stretch> blocks_, band_, merged_;  // ascending
  std::int64_t rows_ = 0, cell_bands_ = 0;
};

struct Totals {
  double allowed = 0, keys_seen = 0;
  std::int64_t empty_rows = 0;
};

// The keys that some row of a group touches, in whole cells.
class KeysSeen {
 public:
  KeysSeen(std::int64_t keys, std::int64_t of_cell)
      : keys_(keys), of_cell_(of_cell), begins_(static_cast<std::size_t>(ceil_div(keys, of_cell)) + 1) {}

  void add(std::span<const BandRun> runs) {
    for (const BandRun& run : runs)
      ++begins_[static_cast<std::size_t>(run.begin)], --begins_[static_cast<std::size_t>(run.end)];
  }

  // Of the runs since the last time.
  std::int64_t count() {
    std::int64_t seen = 0, open = 0;
    for (std::size_t cell = 0; cell + 1 < begins_.size(); ++cell) {
      open += begins_[cell];
      const auto begin = static_cast<std::int64_t>(cell) * of_cell_;
      if (open > 0) seen += std::min(of_cell_, keys_ - begin);
    }
    std::fill(begins_.begin(), begins_.end(), 0);
    return seen;
  }

 private:
  std::int64_t keys_, of_cell_;
  std::vector<std::int32_t> begins_;  // runs that begin at the cell, less those that end there
};

// Neighbours of one kind together: there are far fewer of them than of partial cells.
void join_cells(std::span<const BandRun> runs, Outline& cells) {
  cells.clear();
  for (const BandRun& run : runs) cells.add({run.begin, run.end}, run.full ? BlockKind::full : BlockKind::partial);
}

// Tallies of multiples of one size of bands and cells.
class Pass {
 public:
  Pass(const MaskBands& bands, BlockSize band, std::span<Tally> tallies, std::span<const std::int64_t> weights)
      : extent_(bands.mask().extent()),
        origin_(bands.origin()),
        band_(band),
        tallies_(tallies),
        weights_(weights),
        seen_(extent_.keys, band.block_kv) {
    for (const Tally& tally : tallies) rows_of_blocks_.emplace_back(tally.size, band.block_kv, extent_.keys);
  }

  void add(const MaskBand& band) {
    const std::int64_t weight = weights_[static_cast<std::size_t>(band.group)];
    totals_.allowed += static_cast<double>(weight) * static_cast<double>(band.allowed);
    totals_.empty_rows += weight * band.empty_rows;
    seen_.add(band.runs);
    if (band.positions.end == extent_.keys) totals_.keys_seen += static_cast<double>(weight * seen_.count());
    join_cells(band.runs, cells_);
    for (std::size_t t = 0; t < tallies_.size(); ++t) {
      rows_of_blocks_[t].add(cells_, band.positions.size());
      const std::int64_t height = tallies_[t].size.block_q;
      const std::int64_t end = row_block_at(extent_, origin_, band_.block_q, band.positions.begin) + band_.block_q;
      if (end < extent_.keys && row_block_at(extent_, origin_, height, end) != end) continue;
      rows_of_blocks_[t].count(tallies_[t], weight);
      rows_of_blocks_[t].reset();
    }
  }
  const Totals& totals() const { return totals_; }

 private:
  MaskExtent extent_;
  RowOrigin origin_;
  BlockSize band_;
  std::span<Tally> tallies_;
  std::span<const std::int64_t> weights_;
  std::vector<RowOfBlocks> rows_of_blocks_ = {};
  Outline cells_ = {};
  KeysSeen seen_;
  Totals totals_ = {};
};

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

MaskStats measure(const MaskBands& bands, std::span<const BlockSize> sizes) {
  const BoundMask& mask = bands.mask();
  const MaskExtent& extent = mask.extent();
  check(extent, mask.groups(), sizes);
  const std::vector<std::int64_t> weights = weights_of_groups(mask);
  const auto shares_base = [](const BlockSize& size) {
    return size.block_q % kBase == 0 && size.block_kv % kBase == 0;
  };
  std::vector<Tally> shared, tallies;
  for (const BlockSize& size : sizes)
    if (shares_base(size)) shared.push_back({.size = size});
  Pass together(bands, {kBase, kBase}, shared, weights);
  bands.for_each([&](const MaskBand& band) { together.add(band); });
  const Totals& totals = together.totals();
  auto next = shared.begin();
  for (const BlockSize& size : sizes) {
    if (shares_base(size)) {
      tallies.push_back(std::move(*next++));
      continue;
    }
    tallies.push_back({.size = size});
    Pass own(bands, size, std::span(&tallies.back(), 1), weights);
    scan_bands(mask, bands.origin(), size.block_q, size.block_kv, [&](const MaskBand& band) { own.add(band); });
  }

  const auto heads = static_cast<double>(extent.batch * extent.heads);
  const double pairs = static_cast<double>(extent.queries) * static_cast<double>(extent.keys) * heads;
  MaskStats stats{.extent = extent,
                  .groups = mask.groups(),
                  .density = pairs > 0 ? totals.allowed / pairs : 0,
                  .allowed_pairs = totals.allowed,
                  .empty_rows = totals.empty_rows,
                  .keys_seen = totals.keys_seen / heads};
  for (Tally& tally : tallies) {
    const double blocks = std::max(tally.empty + tally.partial + tally.full, 1.0);
    stats.blocks.push_back({.block_q = tally.size.block_q,
                            .block_kv = tally.size.block_kv,
                            .empty = tally.empty / blocks,
                            .partial = tally.partial / blocks,
                            .full = tally.full / blocks,
                            .touched_density = tally.touched_pairs > 0 ? totals.allowed / tally.touched_pairs : 0,
                            .heaviest = tally.heaviest,
                            .row_blocks = tally.costs.bins()});
  }
  return stats;
}

MaskStats measure(const BoundMask& mask, std::span<const BlockSize> sizes) { return measure(MaskBands(mask), sizes); }

}  // namespace stof
