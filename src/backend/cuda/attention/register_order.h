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

// Of 16 elements of 4 bits, those at even places below those at odd ones.
inline std::uint64_t even_below_odd(std::uint64_t elements) {
  const auto exchange = [&elements](std::uint64_t lower, int by) {
    const std::uint64_t differ = (elements ^ elements >> by) & lower;
    elements ^= differ ^ differ << by;
  };
  exchange(0x00F000F000F000F0u, 4);
  exchange(0x0000FF000000FF00u, 8);
  exchange(0x00000000FFFF0000u, 16);
  return elements;
}

// Bit i of thread t is the element that accumulator register i of thread t holds (kernels/cuda/wgmma.cuh): four threads
// hold two rows, eight rows apart, each two of every eight columns.
inline TileWords in_register_order(const TileRows& rows) {
  constexpr std::uint64_t kLowPairs = 0x3333333333333333u;  // columns of threads 0 and 2
  TileWords words;
  for (std::size_t warp = 0; warp < 4; ++warp)
    for (std::size_t i = 0; i < 8; ++i) {
      const std::uint64_t upper = rows[16 * warp + i], lower = rows[16 * warp + 8 + i];
      const std::uint64_t of_even = even_below_odd((upper & kLowPairs) | (lower & kLowPairs) << 2),
                          of_odd = even_below_odd((upper >> 2 & kLowPairs) | (lower & ~kLowPairs));
      std::uint32_t* const out = words.data() + 32 * warp + 4 * i;
      out[0] = static_cast<std::uint32_t>(of_even), out[1] = static_cast<std::uint32_t>(of_odd);
      out[2] = static_cast<std::uint32_t>(of_even >> 32), out[3] = static_cast<std::uint32_t>(of_odd >> 32);
    }
  return words;
}

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
  int intern(std::span<const std::uint32_t> pattern) {
    const int index = pool_.intern(pattern);
    check_countable("words in distinct patterns of tiles", pool_.words());
    return index;
  }
  std::vector<std::uint32_t> take() { return pool_.take(); }

 private:
  WordPool<std::uint32_t> pool_;
};

}  // namespace stof::cuda
