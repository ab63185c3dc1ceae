// SPDX-License-Identifier: Apache-2.0
#include "src/mask/terms/dense.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace stof::term {

std::string Bits::print(ArrayNames names) const { return fmt::format("bits({})", array->source.print(names)); }

}  // namespace stof::term

namespace stof::bound {

bool DenseBits::allows(std::int64_t p, std::int64_t key) const {
  const std::int64_t column = array_->columns == 1 ? 0 : key;
  return row(p)[column >> 6] >> (column & 63) & 1;
}

BlockKind DenseBits::classify(Range positions, Range keys) const {
  const Range rows = array_->rows == 1 ? Range{0, 1} : Range{positions.begin - offset_, positions.end - offset_};
  const Range columns = array_->columns == 1 ? Range{0, 1} : keys;
  // The level at which the shorter side touches at most two cells; the longer side may touch more.
  const std::vector<CellLevel>& levels = array_->cells[static_cast<std::size_t>(slice_)];
  const auto shorter = static_cast<std::uint64_t>(std::min(rows.size(), columns.size()) - 1);
  const int depth =
      std::min(std::max(static_cast<int>(std::bit_width(shorter)) - 6, 0), static_cast<int>(levels.size()) - 1);
  const CellLevel& level = levels[static_cast<std::size_t>(depth)];
  const int shift = 6 + depth;
  const BlockKind first = level.at(rows.begin >> shift, columns.begin >> shift);
  if (first == BlockKind::partial) return first;
  for (std::int64_t r = rows.begin >> shift; r <= (rows.end - 1) >> shift; ++r)
    for (std::int64_t c = columns.begin >> shift; c <= (columns.end - 1) >> shift; ++c)
      if (level.at(r, c) != first) return BlockKind::partial;
  return first;
}

void DenseBits::fill(std::int64_t p, RowBits out) const {
  const std::uint64_t* source = row(p);
  if (array_->columns == 1) {
    if (source[0] & 1) out.allow(out.keys());
    return;
  }
  const std::int64_t count = words_for(out.keys().size()), first = out.keys().begin >> 6;
  const int shift = static_cast<int>(out.keys().begin & 63);
  std::uint64_t* words = out.words();
  for (std::int64_t w = 0; w < count; ++w) {
    std::uint64_t word = source[first + w] >> shift;
    if (shift != 0 && first + w + 1 < array_->row_words) word |= source[first + w + 1] << (64 - shift);
    words[w] = word;
  }
  if (const std::int64_t rest = out.keys().size() & 63; rest != 0) words[count - 1] &= ~(~std::uint64_t{0} << rest);
}

}  // namespace stof::bound
