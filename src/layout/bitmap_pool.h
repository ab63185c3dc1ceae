// SPDX-License-Identifier: Apache-2.0
// Distinct bitmaps, found by content: a banded mask has a handful, however long it is.
#pragma once
#include <cstdint>
#include <cstring>
#include <span>
#include <unordered_map>
#include <vector>

#include "src/base/hash.h"
#include "src/base/narrow.h"

namespace stof {

class BitmapPool {
 public:
  explicit BitmapPool(std::size_t words_per_bitmap) : size_(words_per_bitmap) {}

  // The index of this bitmap, which is added when it is new.
  std::int32_t intern(std::span<const std::uint64_t> bitmap) {
    const std::uint64_t hash = hash64(bitmap.data(), bitmap.size_bytes());
    const auto [first, last] = by_hash_.equal_range(hash);
    for (auto it = first; it != last; ++it)
      if (std::memcmp(words_.data() + static_cast<std::size_t>(it->second) * size_, bitmap.data(),
                      bitmap.size_bytes()) == 0)
        return it->second;
    const auto index = narrow<std::int32_t>(words_.size() / size_, "number of distinct bitmaps");
    words_.insert(words_.end(), bitmap.begin(), bitmap.end());
    by_hash_.emplace(hash, index);
    return index;
  }
  // Makes room for what a mask of this many row-blocks will need if it goes on as it began: growing step by step costs
  // more than the packing itself when every bitmap is another.
  void reserve(std::int64_t row_blocks_done, std::int64_t row_blocks) {
    constexpr double kMostWords = 1 << 27;  // address space; memory is taken when it is written
    if (words_.size() + 256 * size_ < words_.capacity()) return;
    const double expected = 1.05 * static_cast<double>(words_.size()) * static_cast<double>(row_blocks) /
                            static_cast<double>(row_blocks_done);
    if (expected < kMostWords) words_.reserve(static_cast<std::size_t>(expected));
  }
  std::vector<std::uint64_t> take() { return std::move(words_); }

 private:
  std::size_t size_;
  std::vector<std::uint64_t> words_;
  std::unordered_multimap<std::uint64_t, std::int32_t> by_hash_;
};

}  // namespace stof
