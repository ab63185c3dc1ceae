// SPDX-License-Identifier: Apache-2.0
#include "src/layout/bitmap_pool.h"

#include <cstring>

#include "src/base/hash.h"
#include "src/base/large_pages.h"
#include "src/base/narrow.h"

namespace stof {

std::int32_t BitmapPool::intern(std::span<const std::uint64_t> bitmap) {
  const auto hash = static_cast<std::uint32_t>(hash64(bitmap.data(), bitmap.size_bytes()));
  std::size_t at = hash & (slots_.size() - 1);
  for (; slots_[at].index >= 0; at = (at + 1) & (slots_.size() - 1))
    if (slots_[at].hash == hash && std::memcmp(words_.data() + static_cast<std::size_t>(slots_[at].index) * size_,
                                               bitmap.data(), bitmap.size_bytes()) == 0)
      return slots_[at].index;
  const auto index = narrow<std::int32_t>(count_, "number of distinct bitmaps");
  words_.insert(words_.end(), bitmap.begin(), bitmap.end());
  slots_[at] = {.hash = hash, .index = index};
  if (2 * ++count_ > slots_.size()) double_slots();
  return index;
}

void BitmapPool::double_slots() {
  std::vector<Slot> larger(2 * slots_.size());
  for (const Slot& slot : slots_) {
    if (slot.index < 0) continue;
    std::size_t at = slot.hash & (larger.size() - 1);
    while (larger[at].index >= 0) at = (at + 1) & (larger.size() - 1);
    larger[at] = slot;
  }
  slots_ = std::move(larger);
}

void BitmapPool::reserve(std::int64_t row_blocks_done, std::int64_t row_blocks) {
  constexpr double kMostWords = 1 << 27;  // address space; memory is taken when it is written
  if (words_.size() + 256 * size_ < words_.capacity()) return;
  const double expected = 1.05 * static_cast<double>(words_.size()) * static_cast<double>(row_blocks) /
                          static_cast<double>(row_blocks_done);
  if (expected >= kMostWords) return;
  const std::size_t before = words_.capacity();
  words_.reserve(static_cast<std::size_t>(expected));
  if (words_.capacity() != before)
    prefer_large_pages(words_.data() + words_.size(), (words_.capacity() - words_.size()) * sizeof(std::uint64_t));
}

}  // namespace stof
