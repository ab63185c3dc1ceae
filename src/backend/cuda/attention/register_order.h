// SPDX-License-Identifier: Apache-2.0
// Mask bits in the order in which threads hold scores, each pattern stored once.
#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "src/base/error.h"
#include "src/layout/bitmap_pool.h"

namespace stof::cuda {

using TileRows = std::array<std::uint64_t, 64>;    // bit j of row i: key j is allowed
using TileWords = std::array<std::uint32_t, 128>;  // of a warpgroup's threads

// Bit i of thread t is the element that accumulator register i of thread t holds (kernels/cuda/wgmma.cuh).
TileWords in_register_order(std::span<const std::uint64_t, 64> rows);

// Kernels count the numbers of a mask's lists, and the words of its patterns, in 32 bits.
inline void check_countable(std::string_view what, std::size_t count) {
  constexpr auto kMost = static_cast<std::size_t>(std::numeric_limits<int>::max());
  if (count > kMost)
    fail(ErrorKind::unsupported, "attention: the mask has {} {}; accepted on CUDA: at most {}", count, what, kMost);
}

// Patterns of so many tiles each, found by content.
class PatternPool {
 public:
  explicit PatternPool(std::size_t tiles) : pool_(tiles * std::tuple_size_v<TileWords>) {}

  void reserve_at_most(std::size_t patterns) { pool_.reserve_at_most(patterns); }
  int intern(std::span<const std::uint32_t> pattern) { return counted(pool_.intern(pattern)); }
  // By a hash of what decides the pattern (WordPool).
  int intern(std::span<const std::uint32_t> pattern, std::uint32_t hash) {
    return counted(pool_.intern(pattern, hash));
  }
  void announce(std::uint32_t hash) const { pool_.announce(hash); }
  std::vector<std::uint32_t> take() { return pool_.take(); }

 private:
  int counted(int index) const {
    check_countable("words in distinct patterns of tiles", pool_.words());
    return index;
  }

  WordPool<std::uint32_t> pool_;
};

}  // namespace stof::cuda
