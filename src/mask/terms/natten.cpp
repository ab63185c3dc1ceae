// SPDX-License-Identifier: Apache-2.0
#include "src/mask/terms/natten.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace stof::term {
namespace {

// The `kernel` cells around x, shifted into [0, size).
Range neighbours(std::int64_t x, std::int64_t kernel, std::int64_t size) {
  const std::int64_t begin = std::clamp<std::int64_t>(x - kernel / 2, 0, size - kernel);
  return {begin, begin + kernel};
}

// Columns of the cells [begin, end): those of one grid row, or all when there are more.
Range columns_covered(Range cells, std::int64_t width) {
  if (cells.begin / width != (cells.end - 1) / width) return {0, width};
  return {cells.begin % width, (cells.end - 1) % width + 1};
}

}  // namespace

std::string Natten::print(ArrayNames) const {
  return fmt::format("natten({},{},{},{})", height, width, kernel_height, kernel_width);
}

Range Natten::rows_of(std::int64_t y) const { return neighbours(y, kernel_height, height); }

Range Natten::columns_of(std::int64_t x) const { return neighbours(x, kernel_width, width); }

bool Natten::allows(std::int64_t p, std::int64_t key) const {
  return rows_of(p / width).contains(key / width) && columns_of(p % width).contains(key % width);
}

BlockKind Natten::classify(Range positions, Range keys) const {
  const Range rows = {keys.begin / width, (keys.end - 1) / width + 1}, columns = columns_covered(keys, width);
  const Range x = columns_covered(positions, width);
  // Windows move monotonically with the query: the first and the last one bound all.
  const Range first_rows = rows_of(positions.begin / width), last_rows = rows_of((positions.end - 1) / width);
  const Range first_columns = columns_of(x.begin), last_columns = columns_of(x.end - 1);
  if (intersect(rows, {first_rows.begin, last_rows.end}).empty()) return BlockKind::empty;
  if (intersect(columns, {first_columns.begin, last_columns.end}).empty()) return BlockKind::empty;
  const bool full =
      intersect(first_rows, last_rows).contains(rows) && intersect(first_columns, last_columns).contains(columns);
  return full ? BlockKind::full : BlockKind::partial;
}

void Natten::fill(const TileBits& tile) const {
  std::fill_n(tile.words, tile.word_count(), 0);
  const Range covered = {tile.keys.begin / width, (tile.keys.end - 1) / width + 1};
  std::int64_t y = tile.positions.begin / width, x = tile.positions.begin % width;
  Range rows = intersect(rows_of(y), covered);
  for (std::int64_t p = tile.positions.begin; p < tile.positions.end; ++p) {
    const RowBits row = tile.row(p);
    const std::int64_t column = columns_of(x).begin;
    for (std::int64_t first = rows.begin * width + column; first < rows.end * width; first += width)
      row.allow(Range{first, first + kernel_width});
    if (++x < width) continue;
    x = 0;
    rows = intersect(rows_of(++y), covered);
  }
}

// Whether enough ranges of as many positions begin in the same column.
bool Natten::repeats(std::int64_t positions) const {
  constexpr std::int64_t kLeastAlike = 4;
  const std::int64_t columns = width / std::gcd(width, positions);  // that ranges as long begin in
  return height * width >= kLeastAlike * columns * positions;
}

std::optional<std::int64_t> Natten::place_of(Range positions) const {
  if (!repeats(positions.size())) return std::nullopt;
  const std::int64_t first = positions.begin / width - kernel_height / 2,
                     last = (positions.end - 1) / width - kernel_height / 2;
  const bool shifted = first < 0 || last > height - kernel_height;
  return shifted ? 1 + width + positions.begin : 1 + positions.begin % width;
}

std::optional<NamedBand> Natten::band_of(Range positions) const {
  if (!repeats(positions.size())) return std::nullopt;
  const std::int64_t first = positions.begin / width, last = (positions.end - 1) / width;
  const std::int64_t begin = rows_of(first).begin, moved = rows_of(last).begin - begin;
  const bool all_move = moved == last - first;
  if (!all_move && moved != 0) return std::nullopt;
  const std::int64_t column = positions.begin % width;
  return NamedBand{.name = {.place = all_move ? column : width + column}, .origin = begin * width};
}

}  // namespace stof::term
