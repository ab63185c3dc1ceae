// SPDX-License-Identifier: Apache-2.0
// Distinct bitmaps, found by content: a banded mask has a handful, however long it is; a random one as many as blocks.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace stof {

template <class Word>
class WordPool {
 public:
  explicit WordPool(std::size_t words_per_bitmap) : size_(words_per_bitmap), slots_(kFirstSlots) {}

  // The index of this bitmap, which is added when it is new.
  std::int32_t intern(std::span<const Word> bitmap) { return intern(bitmap, hash_of(bitmap)); }
  // With a hash of the caller's, of anything that is equal when bitmaps are. Tables of many bitmaps are far from the
  // core: what was announced a while before is here when it is looked up.
  std::int32_t intern(std::span<const Word> bitmap, std::uint32_t hash);
  void announce(std::uint32_t hash) const { __builtin_prefetch(&slots_[hash & (slots_.size() - 1)], 1); }
  // Makes room for what a mask of this many row-blocks will need if it goes on as it began: growing step by step costs
  // more than the packing itself when every bitmap is another.
  void reserve(std::int64_t row_blocks_done, std::int64_t row_blocks);
  // Where no more than so many can come.
  void reserve_at_most(std::size_t bitmaps);
  std::size_t words() const { return words_.size(); }
  std::uint64_t bytes() const { return words_.size() * sizeof(Word); }
  std::vector<Word> take() { return std::move(words_); }

 private:
  static constexpr std::size_t kFirstSlots = 256;  // a power of two, as always
  // Linear probing from hash modulo the number of slots, of which at most half are taken. Eight bytes a slot, so that
  // the table of 65,536 bitmaps is 1 MiB and stays near the core.
  struct Slot {
    std::uint32_t hash = 0;
    std::int32_t index = -1;
  };
  static constexpr std::size_t kMostReserved = std::size_t{1} << 30;  // bytes
  static std::uint32_t hash_of(std::span<const Word> bitmap);
  void grow_slots(std::size_t slots);
  void make_room(double words);

  std::size_t size_;
  std::vector<Word> words_;
  std::size_t count_ = 0;
  std::vector<Slot> slots_;
};

extern template class WordPool<std::uint32_t>;
extern template class WordPool<std::uint64_t>;
using BitmapPool = WordPool<std::uint64_t>;

}  // namespace stof
