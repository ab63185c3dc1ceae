// SPDX-License-Identifier: Apache-2.0
// What the choice of a kernel needs to know about a mask. Exact.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "src/mask/bind.h"

namespace stof {

// Per candidate block size, over all (item, head): shares of the blocks, which sum to 1.
struct BlockStats {
  int block_q = 64, block_kv = 64;
  double empty = 0, partial = 0, full = 0;
  double touched_density = 0;  // allowed pairs / pairs inside touched blocks
  std::int64_t heaviest = 0;   // most touched blocks in one row-block
  // Cost of row-blocks in touched entries: `count` row-blocks (over all items and heads) with about `full` full and
  // `partial` partial entries each; at most 64 bins, ascending by full + partial.
  struct Bin {
    double full = 0, partial = 0;
    std::int64_t count = 0;
    friend bool operator==(const Bin&, const Bin&) = default;
  };
  std::vector<Bin> row_blocks;
};

struct MaskStats {
  MaskExtent extent;
  int groups = 1;
  double density = 0;  // allowed pairs / (batch * heads * queries * keys)
  // Allowed pairs over all items and heads; a double because 2^63 is in reach.
  double allowed_pairs = 0;
  std::int64_t empty_rows = 0;  // over all items and heads
  double keys_seen = 0;         // of an item and head those in tiles of 64 that some row touches, in the mean
  std::vector<BlockStats> blocks = {};
};

struct BlockSize {
  int block_q, block_kv;
};
class MaskBands;

MaskStats measure(const BoundMask& mask, std::span<const BlockSize> sizes);
// By bands that other measurements look at as well.
MaskStats measure(const MaskBands& bands, std::span<const BlockSize> sizes);

}  // namespace stof
