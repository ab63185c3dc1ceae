// SPDX-License-Identifier: Apache-2.0
// Rows of mask bits as 64-bit words, the first key in the least significant bit: what terms write into.
#pragma once
#include <algorithm>
#include <cstdint>

#include "src/mask/range.h"

namespace stof {

constexpr std::int64_t words_for(std::int64_t keys) { return (keys + 63) / 64; }

// Sets bits [begin, end) of a row of words.
inline void set_bits(std::uint64_t* words, std::int64_t begin, std::int64_t end) {
  if (begin >= end) return;
  const std::int64_t first = begin >> 6, last = (end - 1) >> 6;
  const std::uint64_t head = ~std::uint64_t{0} << (begin & 63);
  const std::uint64_t tail = ~std::uint64_t{0} >> (63 - ((end - 1) & 63));
  if (first == last) {
    words[first] |= head & tail;
    return;
  }
  words[first] |= head;
  std::fill(words + first + 1, words + last, ~std::uint64_t{0});
  words[last] |= tail;
}

// One row of a tile, zero at first. allow() ignores what lies outside the tile's keys.
class RowBits {
 public:
  RowBits(Range keys, std::uint64_t* words) : keys_(keys), words_(words) {}

  Range keys() const { return keys_; }
  std::uint64_t* words() const { return words_; }
  void allow(Range allowed) {
    const Range inside = intersect(allowed, keys_);
    set_bits(words_, inside.begin - keys_.begin, inside.end - keys_.begin);
  }
  void allow(std::int64_t key) {
    if (!keys_.contains(key)) return;
    const std::int64_t bit = key - keys_.begin;
    words_[bit >> 6] |= std::uint64_t{1} << (bit & 63);
  }

 private:
  Range keys_;
  std::uint64_t* words_;
};

// A rectangle of positions and keys with its words, [positions][words_for(keys)].
struct TileBits {
  Range positions, keys;
  std::uint64_t* words = nullptr;

  std::int64_t words_per_row() const { return words_for(keys.size()); }
  std::int64_t word_count() const { return positions.size() * words_per_row(); }
  RowBits row(std::int64_t position) const {
    return RowBits(keys, words + (position - positions.begin) * words_per_row());
  }
};

}  // namespace stof
