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

// The bits of [begin, end) that fall into the 64 from 64 * word on.
inline std::uint64_t bits_of_word(std::int64_t begin, std::int64_t end, std::int64_t word) {
  const std::int64_t low = std::clamp<std::int64_t>(begin - 64 * word, 0, 64);
  const std::int64_t high = std::clamp<std::int64_t>(end - 64 * word, 0, 64);
  const auto below = [](std::int64_t n) { return n == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1; };
  return below(high) & ~below(low);
}

// Copies `bits` of a source of `source_words` words to the front of `out`; the rest of the last
// word is 0.
inline void copy_bits(const std::uint64_t* source, std::int64_t source_words, Range bits, std::uint64_t* out) {
  const std::int64_t count = words_for(bits.size()), first = bits.begin >> 6;
  const int shift = static_cast<int>(bits.begin & 63);
  if (shift == 0) {
    std::copy_n(source + first, count, out);
  } else {
    for (std::int64_t w = 0; w < count; ++w) {
      const bool more = first + w + 1 < source_words;
      out[w] = source[first + w] >> shift | (more ? source[first + w + 1] << (64 - shift) : 0);
    }
  }
  if (const std::int64_t rest = bits.size() & 63; rest != 0) out[count - 1] &= ~(~std::uint64_t{0} << rest);
}

// One row of a tile, zero at first. allow() ignores what lies outside the tile's keys.
class RowBits {
 public:
  RowBits(Range keys, std::uint64_t* words) : keys_(keys), words_(words) {}

  Range keys() const { return keys_; }
  std::uint64_t* words() const { return words_; }
  void allow(Range allowed) const {
    const Range inside = intersect(allowed, keys_);
    set_bits(words_, inside.begin - keys_.begin, inside.end - keys_.begin);
  }
  void allow(std::int64_t key) const {
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

// A 64 x 64 cell of an array, one word a row.
struct StoredCell {
  const std::uint64_t* words = nullptr;
  std::int64_t allowed = 0;   // pairs
  std::uint64_t columns = 0;  // that some row is allowed
};

}  // namespace stof
