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

void Comb::fill_words(std::int64_t p, Range reached, RowBits row) const {
  // The first tooth in the word, counted from the word's first key.
  std::int64_t phase = p - row.keys().begin - floor_div(p - row.keys().begin, stride) * stride;
  const Range bits = {reached.begin - row.keys().begin, reached.end - row.keys().begin};
  for (std::int64_t w = 0; w < words_for(row.keys().size()); ++w) {
    row.words()[w] = teeth << phase & bits_of_word(bits.begin, bits.end, w);
    phase -= 64 % stride;
    if (phase < 0) phase += stride;
  }
}

void Comb::fill(std::int64_t p, RowBits row) const {
  const Range reached = intersect(row.keys(), {p - reach, p + reach + 1});
  if (stride < 64) return fill_words(p, reached, row);
  // The first key at or after reached.begin that is congruent to p.
  std::int64_t key = p + ceil_div(reached.begin - p, stride) * stride;
  for (; key < reached.end; key += stride) row.allow(key);
}

}  // namespace stof::term
