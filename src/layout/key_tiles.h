// SPDX-License-Identifier: Apache-2.0
// How many tiles of 64 keys a layout cuts whose tiles begin where the mask does: fewer than the statistics count on
// their grid, where row blocks touch few keys. Counted without packing.
#pragma once
#include <cstdint>
#include <vector>

#include "src/mask/mask_bands.h"
#include "src/mask/stats.h"

namespace stof {

// Of row blocks of `block_q` rows, as with BlockFormat{block_q, 64, 8}. A tile counts as full where it lies in cells of
// 64 x 64 that are: packing may find more.
struct CutTiles {
  int block_q = 64;
  std::int64_t heaviest = 0;  // most tiles of one row block
  std::vector<BlockStats::Bin> row_blocks;
};

// Block sizes of 64 keys of which more are partial than full: of others it is the grid's
// tiles that are packed. Not those of row blocks of more than kMostMeanTiles tiles on average, where one tile less is
// little and a mask without a formula takes long to look at.
struct KeyTiles {
  static constexpr std::int64_t kKeys = 64, kStep = 8;
  static constexpr double kMostMeanTiles = 32;
  std::vector<CutTiles> blocks;

  const CutTiles* of(int block_q) const;  // null: not counted
};

KeyTiles measure_tiles(const MaskBands& bands, const MaskStats& stats);

}  // namespace stof
