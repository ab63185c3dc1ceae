// SPDX-License-Identifier: Apache-2.0
#include "src/mask/terms/dense.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

namespace stof::term {

std::string Bits::print(ArrayNames names) const { return fmt::format("bits({})", array->source.print(names)); }

MaskTraits Bits::traits() const {
  const Shape& shape = array->shape;
  return {.length = true,
          .batch = shape.size() == 4 && shape[0] != 1,
          .head = shape.size() >= 3 && shape[shape.size() - 3] != 1};
}

}  // namespace stof::term

namespace stof::bound {
namespace {

// How many of these cells, one at least, are of the first one's kind.
std::int64_t alike(std::span<const BlockKind> kinds) {
  static_assert(sizeof(BlockKind) == 1);
  const std::uint64_t eight = 0x0101010101010101u * static_cast<std::uint64_t>(kinds[0]);
  std::size_t count = 1;
  for (std::uint64_t next = 0; count + sizeof(next) <= kinds.size(); count += sizeof(next)) {
    std::memcpy(&next, kinds.data() + count, sizeof(next));
    if (next != eight) return static_cast<std::int64_t>(count) + std::countr_zero(next ^ eight) / 8;
  }
  while (count < kinds.size() && kinds[count] == kinds[0]) ++count;
  return static_cast<std::int64_t>(count);
}

}  // namespace

bool DenseBits::allows(std::int64_t p, std::int64_t key) const {
  return array_->at(slice_, one_row() ? 0 : p - offset_, one_column() ? 0 : key);
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

bool DenseBits::outline(const CellGrid& grid, Range cells, Outline& out) const {
  if (one_row() || one_column() || grid.cell_keys != 64) return false;
  const CellLevel& level = array_->cells[static_cast<std::size_t>(slice_)].front();
  const Range rows = {(grid.positions.begin - offset_) >> 6, ((grid.positions.end - 1 - offset_) >> 6) + 1};
  for (std::int64_t cell = cells.begin; cell < cells.end;) {
    const BlockKind first = level.at(rows.begin, cell);
    std::int64_t end = cells.end;
    for (std::int64_t row = rows.begin; row < rows.end && end > cell; ++row)
      end = level.at(row, cell) == first ? std::min(end, cell + alike(level.row(row, {cell, end}))) : cell;
    out.add({cell, std::max(end, cell + 1)}, end > cell ? first : BlockKind::partial);
    cell = std::max(end, cell + 1);
  }
  return true;
}

StoredCell DenseBits::stored_cell(std::int64_t p, std::int64_t key) const {
  const std::int64_t row = p - offset_;
  if (one_row() || one_column() || row % 64 != 0 || key % 64 != 0) return {};
  return array_->stored_cell(slice_, row, key >> 6);
}

void DenseBits::fill_rows(std::int64_t p, std::int64_t rows, const TileBits& tile) const {
  const std::int64_t row = p - offset_, words = tile.words_per_row(), first = tile.keys.begin >> 6;
  const int shift = static_cast<int>(tile.keys.begin & 63);
  const std::int64_t rest = tile.keys.size() & 63;
  for (std::int64_t w = 0; w < words; ++w) {
    const std::uint64_t* source = array_->cell(slice_, row, first + w) + (row & 63);
    std::uint64_t* out = tile.row(p).words() + w;
    const std::uint64_t kept = w + 1 == words && rest != 0 ? ~(~std::uint64_t{0} << rest) : ~std::uint64_t{0};
    if (words == 1 && shift == 0 && rest == 0) {
      std::copy_n(source, rows, out);
    } else if (shift == 0 || first + w + 1 == array_->word_columns()) {
      for (std::int64_t i = 0; i < rows; ++i) out[i * words] = source[i] >> shift & kept;
    } else {
      const std::uint64_t* after = source + 64;
      for (std::int64_t i = 0; i < rows; ++i) out[i * words] = (source[i] >> shift | after[i] << (64 - shift)) & kept;
    }
  }
}

// A row or a column of the array is repeated.
void DenseBits::fill_repeated(const TileBits& tile) const {
  std::fill_n(tile.words, tile.word_count(), 0);
  for (std::int64_t p = tile.positions.begin; p < tile.positions.end; ++p) {
    const RowBits row = tile.row(p);
    if (one_column() && allows(p, 0)) row.allow(tile.keys);
    for (std::int64_t key = tile.keys.begin; !one_column() && key < tile.keys.end; ++key)
      if (allows(p, key)) row.allow(key);
  }
}

void DenseBits::fill(const TileBits& tile) const {
  if (one_row() || one_column()) return fill_repeated(tile);
  for (std::int64_t p = tile.positions.begin; p < tile.positions.end;) {
    const std::int64_t rows = std::min(64 - ((p - offset_) & 63), tile.positions.end - p);
    fill_rows(p, rows, tile);
    p += rows;
  }
}

}  // namespace stof::bound
