// SPDX-License-Identifier: Apache-2.0
// For tests of what the CUDA kernels read: bits in register order, and extents of masks.
#pragma once
#include <cstdint>
#include <random>

#include "stof/mask_extent.h"

namespace stof::cuda {

// Register i of thread t of a warpgroup holds the score of this row and key of a 64 x 64 tile.
inline bool bit(const std::uint32_t* words, int row, int key) {
  const int warp = row / 16, within = row % 16;
  const int lane = within % 8 * 4 + key % 8 / 2;
  const int index = key / 8 * 4 + (within / 8) * 2 + key % 2;
  return (words[warp * 32 + lane] >> index & 1) != 0;
}

inline MaskExtent random_extent(unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
  MaskExtent extent{.queries = 1 + below(330), .keys = 1 + below(400), .batch = 1 + below(2), .heads = 1 + below(3)};
  if (below(2) == 0) extent.queries = extent.keys;
  return extent;
}

}  // namespace stof::cuda
