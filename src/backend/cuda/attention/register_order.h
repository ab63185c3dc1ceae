// SPDX-License-Identifier: Apache-2.0
// Mask bits in the order in which threads hold scores, each pattern stored once.
#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/base/error.h"
#include "src/base/hash.h"

namespace stof::cuda {

using TileRows = std::array<std::uint64_t, 64>;    // bit j of row i: key j is allowed
using TileWords = std::array<std::uint32_t, 128>;  // of a warpgroup's threads

// Bit i of thread t is the element that accumulator register i of thread t holds (kernels/cuda/wgmma.cuh).
inline TileWords in_register_order(const TileRows& rows) {
  TileWords words{};
  for (unsigned t = 0; t < 128; ++t) {
    const unsigned row = t / 32 * 16 + t % 32 / 4, column = t % 4 * 2;
    std::uint32_t word = 0;
    for (unsigned pair = 0; pair < 8; ++pair) {
      const unsigned upper = static_cast<unsigned>(rows[row] >> (8 * pair + column)) & 3u;
      const unsigned lower = static_cast<unsigned>(rows[row + 8] >> (8 * pair + column)) & 3u;
      word |= (upper | lower << 2) << (4 * pair);
    }
    words[t] = word;
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
  explicit PatternPool(std::size_t tiles) : size_(tiles * 128) {}

  int intern(const std::vector<std::uint32_t>& pattern) {
    const std::uint64_t hash = hash64(pattern.data(), pattern.size() * sizeof(std::uint32_t));
    const auto [first, last] = by_hash_.equal_range(hash);
    for (auto it = first; it != last; ++it)
      if (std::equal(pattern.begin(), pattern.end(), words_.begin() + static_cast<std::ptrdiff_t>(size_) * it->second))
        return it->second;
    check_countable("words in distinct patterns of tiles", words_.size() + size_);
    const auto index = static_cast<int>(words_.size() / size_);
    words_.insert(words_.end(), pattern.begin(), pattern.end());
    by_hash_.emplace(hash, index);
    return index;
  }
  std::vector<std::uint32_t> take() { return std::move(words_); }

 private:
  std::size_t size_;
  std::vector<std::uint32_t> words_;
  std::unordered_multimap<std::uint64_t, int> by_hash_;
};

}  // namespace stof::cuda
