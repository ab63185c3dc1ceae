// SPDX-License-Identifier: Apache-2.0
// How many short pieces hold the keys of 64 rows: what decides whether a kernel may gather them instead of taking
// tiles.
#pragma once
#include <cstdint>
#include <vector>

#include "src/mask/mask_bands.h"
#include "src/mask/stats.h"

namespace stof {

// Pieces are 32 keys from a multiple of 8 on, as few as hold every key that some of the 64 rows uses. Not measured
// where most row blocks touch more than kMostTypicalTiles tiles of 64 keys: there tiles are the better unit.
struct KeyPieces {
  static constexpr std::int64_t kKeys = 32, kStep = 8;
  static constexpr double kMostTypicalTiles = 6;
  struct Bin {
    std::int64_t pieces = 0, count = 0;  // so many row blocks, over all items and heads
    friend bool operator==(const Bin&, const Bin&) = default;
  };
  bool measured = false;
  std::vector<Bin> row_blocks = {};  // ascending by pieces
  friend bool operator==(const KeyPieces&, const KeyPieces&) = default;
};

// `stats` of the mask, with blocks of 64 x 64 among them.
KeyPieces measure_pieces(const MaskBands& bands, const MaskStats& stats);

}  // namespace stof
