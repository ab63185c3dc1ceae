// SPDX-License-Identifier: Apache-2.0
#include "src/layout/key_tiles.h"

#include <algorithm>
#include <bit>

#include "src/mask/mask_bands.h"
#include "src/mask/row_block_costs.h"

namespace stof {
namespace {

// One pass over bands of so many rows serves every block size that is a multiple; others have bands of their own.
constexpr int kBand = MaskBands::kRows;
static_assert(KeyTiles::kKeys == MaskBands::kKeys);
constexpr std::int64_t kStepsOfCell = KeyTiles::kKeys / KeyTiles::kStep;
constexpr unsigned kAllSteps = (1u << kStepsOfCell) - 1;

// Which of a partial cell's stretches of 8 keys some row uses.
unsigned steps_used(const BandRun& run) {
  static_assert(KeyTiles::kStep == 8 && kStepsOfCell == 8);
  std::uint64_t any = run.columns;  // the lowest bit of each byte becomes what all of its bits are together
  for (const int half : {4, 2, 1}) any |= any >> half;
  // Moves bit 8 i to bit 56 + i: no two of the 64 products meet.
  return static_cast<unsigned>((any & 0x0101010101010101) * 0x0102040810204080 >> 56);
}

// The row blocks of one size, put together from bands of rows.
class RowBlocks {
 public:
  RowBlocks(int block_q, std::int64_t keys)
      : block_q_(block_q), cells_(static_cast<std::size_t>(ceil_div(keys, KeyTiles::kKeys))) {}

  int block_q() const { return block_q_; }

  void add(const BandRun& run, unsigned steps) {
    for (std::int64_t cell = run.begin; cell < run.end; ++cell) {
      Cell& at = cells_[static_cast<std::size_t>(cell)];
      if (at.steps == 0) touched_.push_back(cell);
      at.steps |= steps;
      at.full_bands += run.full;
    }
  }
  void end_band() { ++bands_; }

  // Of so many heads and items; begins the next row block.
  void end_row_block(std::int64_t weight) {
    std::sort(touched_.begin(), touched_.end());
    RowBlockCost cost;
    std::int64_t covered = 0;  // steps
    for (const std::int64_t cell : touched_) {
      const std::int64_t first = std::max<std::int64_t>(0, covered - cell * kStepsOfCell);
      const unsigned left = cells_[static_cast<std::size_t>(cell)].steps >> first << first;
      if (left == 0) continue;
      // A tile has as many steps as a cell: no second one begins in this.
      const int step = std::countr_zero(left);
      (full(cell) && (step == 0 || full(cell + 1)) ? cost.full : cost.partial) += 1;
      covered = (cell + 1) * kStepsOfCell + step;
    }
    heaviest_ = std::max(heaviest_, cost.entries());
    costs_.add(cost, weight);
    for (const std::int64_t cell : touched_) cells_[static_cast<std::size_t>(cell)] = {};
    touched_.clear();
    bands_ = 0;
  }

  CutTiles tiles() { return {.block_q = block_q_, .heaviest = heaviest_, .row_blocks = costs_.bins()}; }

 private:
  struct Cell {
    unsigned steps = 0;
    int full_bands = 0;
  };
  // Keys that do not exist are no reason to look at bits.
  bool full(std::int64_t cell) const {
    const auto at = static_cast<std::size_t>(cell);
    return at >= cells_.size() || cells_[at].full_bands == bands_;
  }

  int block_q_, bands_ = 0;
  std::vector<Cell> cells_;
  std::vector<std::int64_t> touched_;
  std::int64_t heaviest_ = 0;
  RowBlockCosts costs_;
};

bool is_cut(const BlockStats& stats) {
  if (stats.block_kv != KeyTiles::kKeys || stats.partial <= stats.full) return false;
  double tiles = 0, count = 0;
  for (const BlockStats::Bin& bin : stats.row_blocks) {
    tiles += static_cast<double>(bin.count) * (bin.full + bin.partial);
    count += static_cast<double>(bin.count);
  }
  return tiles <= KeyTiles::kMostMeanTiles * count;
}

// Of a run that is full: all steps of its cells but those behind the last key.
void add_run(RowBlocks& blocks, const BandRun& run, unsigned steps, std::int64_t keys) {
  const std::int64_t end = run.end * KeyTiles::kKeys;
  if (!run.full || end <= keys) return blocks.add(run, steps);
  BandRun whole = run, last = run;
  whole.end = last.begin = run.end - 1;
  blocks.add(whole, steps);
  blocks.add(last, kAllSteps >> (end - keys) / KeyTiles::kStep);
}

// Of bands of `height` rows, for block sizes of multiples of it.
class Pass {
 public:
  Pass(const MaskBands& bands, std::int64_t height, std::span<RowBlocks> sizes)
      : extent_(bands.mask().extent()),
        origin_(bands.origin()),
        height_(height),
        sizes_(sizes),
        weights_(weights_of_groups(bands.mask())) {}

  void add(const MaskBand& band) {
    for (const BandRun& run : band.runs) {
      const unsigned steps = run.full ? kAllSteps : steps_used(run);
      for (RowBlocks& size : sizes_) add_run(size, run, steps, extent_.keys);
    }
    const std::int64_t end = row_block_at(extent_, origin_, height_, band.positions.begin) + height_;
    for (RowBlocks& size : sizes_) {
      size.end_band();
      if (end >= extent_.keys || row_block_at(extent_, origin_, size.block_q(), end) == end)
        size.end_row_block(weights_[static_cast<std::size_t>(band.group)]);
    }
  }

 private:
  MaskExtent extent_;
  RowOrigin origin_;
  std::int64_t height_;
  std::span<RowBlocks> sizes_;
  std::vector<std::int64_t> weights_;
};

}  // namespace

const CutTiles* KeyTiles::of(int block_q) const {
  for (const CutTiles& tiles : blocks)
    if (tiles.block_q == block_q) return &tiles;
  return nullptr;
}

KeyTiles measure_tiles(const MaskBands& bands, const MaskStats& stats) {
  const BoundMask& mask = bands.mask();
  std::vector<RowBlocks> shared;
  KeyTiles result;
  for (const BlockStats& blocks : stats.blocks) {
    if (!is_cut(blocks)) continue;
    RowBlocks size(blocks.block_q, mask.extent().keys);
    if (blocks.block_q % kBand == 0) {
      shared.push_back(std::move(size));
      continue;
    }
    Pass own(bands, blocks.block_q, std::span(&size, 1));
    scan_bands(mask, bands.origin(), blocks.block_q, KeyTiles::kKeys, [&](const MaskBand& band) { own.add(band); });
    result.blocks.push_back(size.tiles());
  }
  if (!shared.empty()) {
    Pass pass(bands, kBand, shared);
    bands.for_each([&](const MaskBand& band) { pass.add(band); });
  }
  for (RowBlocks& size : shared) result.blocks.push_back(size.tiles());
  return result;
}

}  // namespace stof
