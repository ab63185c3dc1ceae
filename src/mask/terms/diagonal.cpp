// SPDX-License-Identifier: Apache-2.0
#include "src/mask/terms/diagonal.h"

#include <fmt/format.h>

#include <algorithm>

namespace stof::term {

std::string Window::print(ArrayNames) const {
  return left == right ? fmt::format("window({})", left) : fmt::format("window({},{})", left, right);
}

std::string Dilated::print(ArrayNames) const { return fmt::format("dilated({},{})", steps, stride); }

std::string Strided::print(ArrayNames) const { return fmt::format("strided({})", stride); }

Comb::Comb(std::int64_t stride_, std::int64_t reach_) : stride(stride_), reach(reach_) {
  for (std::int64_t bit = 0; bit < 64; bit += stride) teeth |= std::uint64_t{1} << bit;
}

bool Comb::allows(std::int64_t p, std::int64_t key) const {
  const std::int64_t difference = p - key;
  return -reach <= difference && difference <= reach && difference % stride == 0;
}

BlockKind Comb::classify(Range positions, Range keys) const {
  const std::int64_t least = positions.begin - (keys.end - 1), most = positions.end - 1 - keys.begin;
  const std::int64_t low = std::max(least, -reach), high = std::min(most, reach);
  if (low > high || floor_div(high, stride) * stride < low) return BlockKind::empty;
  // Every difference in [least, most] occurs in the rectangle.
  const bool every = stride == 1 || least == most;
  return every && low == least && high == most ? BlockKind::full : BlockKind::partial;
}

void Comb::fill_words(std::int64_t phase, Range reached, RowBits row) const {
  const Range bits = {reached.begin - row.keys().begin, reached.end - row.keys().begin};
  for (std::int64_t w = 0; w < words_for(row.keys().size()); ++w) {
    row.words()[w] = teeth << phase & bits_of_word(bits.begin, bits.end, w);
    phase -= 64 % stride;
    if (phase < 0) phase += stride;
  }
}

void Comb::fill(const TileBits& tile) const {
  if (stride >= 64) std::fill_n(tile.words, tile.word_count(), 0);
  const std::int64_t behind = tile.positions.begin - tile.keys.begin, farthest = reach / stride * stride;
  // The first tooth in the row, counted from its first key: a division a row is most of what a tile would take.
  std::int64_t phase = behind - floor_div(behind, stride) * stride;
  for (std::int64_t p = tile.positions.begin; p < tile.positions.end; ++p) {
    const RowBits row = tile.row(p);
    const Range reached = intersect(tile.keys, {p - reach, p + reach + 1});
    if (stride < 64) fill_words(phase, reached, row);
    else
      for (std::int64_t key = std::max(tile.keys.begin + phase, p - farthest); key < reached.end; key += stride)
        row.allow(key);
    if (++phase == stride) phase = 0;
  }
}

}  // namespace stof::term
