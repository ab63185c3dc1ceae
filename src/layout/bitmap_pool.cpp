// SPDX-License-Identifier: Apache-2.0
#include "src/layout/bitmap_pool.h"

#include <bit>
#include <cstring>

#include "src/base/hash.h"
#include "src/base/large_pages.h"
#include "src/base/narrow.h"

namespace stof {

template <class Word>
std::uint32_t WordPool<Word>::hash_of(std::span<const Word> bitmap) {
  return static_cast<std::uint32_t>(hash64(bitmap.data(), bitmap.size_bytes()));
}

template <class Word>
std::int32_t WordPool<Word>::intern(std::span<const Word> bitmap, std::uint32_t hash) {
  std::size_t at = hash & (slots_.size() - 1);
  for (; slots_[at].index >= 0; at = (at + 1) & (slots_.size() - 1))
    if (slots_[at].hash == hash && std::memcmp(words_.data() + static_cast<std::size_t>(slots_[at].index) * size_,
                                               bitmap.data(), bitmap.size_bytes()) == 0)
      return slots_[at].index;
  const auto index = narrow<std::int32_t>(count_, "number of distinct bitmaps");
  words_.insert(words_.end(), bitmap.begin(), bitmap.end());
  slots_[at] = {.hash = hash, .index = index};
  if (2 * ++count_ > slots_.size()) grow_slots(2 * slots_.size());
  return index;
}

template <class Word>
void WordPool<Word>::grow_slots(std::size_t slots) {
  std::vector<Slot> larger(slots);
  for (const Slot& slot : slots_) {
    if (slot.index < 0) continue;
    std::size_t at = slot.hash & (larger.size() - 1);
    while (larger[at].index >= 0) at = (at + 1) & (larger.size() - 1);
    larger[at] = slot;
  }
  slots_ = std::move(larger);
}

template <class Word>
void WordPool<Word>::reserve(std::int64_t row_blocks_done, std::int64_t row_blocks) {
  if (words_.size() + 256 * size_ < words_.capacity()) return;
  make_room(1.05 * static_cast<double>(words_.size()) * static_cast<double>(row_blocks) /
            static_cast<double>(row_blocks_done));
}

template <class Word>
void WordPool<Word>::reserve_at_most(std::size_t bitmaps) {
  make_room(static_cast<double>(bitmaps) * static_cast<double>(size_));
}

// Of words this is address space: memory is taken when it is written.
template <class Word>
void WordPool<Word>::make_room(double words) {
  if (words * sizeof(Word) >= static_cast<double>(kMostReserved)) return;
  const std::size_t before = words_.capacity();
  words_.reserve(static_cast<std::size_t>(words));
  if (words_.capacity() != before)
    prefer_large_pages(words_.data() + words_.size(), (words_.capacity() - words_.size()) * sizeof(Word));
  const std::size_t slots = std::bit_ceil(2 * words_.capacity() / size_ + 2);
  if (slots > slots_.size()) grow_slots(slots);
}

template class WordPool<std::uint32_t>;
template class WordPool<std::uint64_t>;

}  // namespace stof
