// SPDX-License-Identifier: Apache-2.0
#include "src/mask/terms/block_rows.h"

#include <fmt/format.h>

#include <algorithm>

namespace stof::term {

std::string Blocks::print(ArrayNames names) const {
  return fmt::format("blocks({},{})", size, table->source.print(names));
}

std::string RandomBlocks::print(ArrayNames) const { return fmt::format("random_blocks({},{},{})", size, count, seed); }

std::string BigBird::print(ArrayNames) const {
  return fmt::format("bigbird({},{},{},{},{})", size, window, global, random, seed);
}

}  // namespace stof::term

namespace stof::bound {

BlockRows::BlockRows(std::int64_t size, const MaskExtent& extent)
    : size_(size),
      columns_(ceil_div(extent.keys, size)),
      row_blocks_{floor_div(extent.offset(), size), ceil_div(extent.keys, size)},
      begin_{0} {}

void BlockRows::append(std::vector<Range>& ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  const std::size_t first = ranges_.size();
  for (const Range& range : ranges) {
    if (range.empty()) continue;
    if (ranges_.size() > first && range.begin <= ranges_.back().end)
      ranges_.back().end = std::max(ranges_.back().end, range.end);
    else ranges_.push_back(range);
  }
  begin_.push_back(ranges_.size());
  ranges.clear();
}

BlockRows::Row BlockRows::row(std::int64_t row_block) const {
  const auto index = static_cast<std::size_t>(row_block - row_blocks_.begin);
  return {ranges_.data() + begin_[index], ranges_.data() + begin_[index + 1]};
}

const Range* BlockRows::first_reaching(Row row, std::int64_t column) const {
  return std::partition_point(row.begin, row.end, [&](const Range& range) { return range.end <= column; });
}

bool BlockRows::allows(std::int64_t p, std::int64_t key) const {
  const Row ranges = row(block_of(p));
  const std::int64_t column = key / size_;
  const Range* range = first_reaching(ranges, column);
  return range != ranges.end && range->begin <= column;
}

BlockKind BlockRows::classify(Range positions, Range keys) const {
  const Range columns = {keys.begin / size_, (keys.end - 1) / size_ + 1};
  const auto kind_of = [&](std::int64_t row_block) {
    const Row ranges = row(row_block);
    const Range* range = first_reaching(ranges, columns.begin);
    if (range == ranges.end || range->begin >= columns.end) return BlockKind::empty;
    return range->contains(columns) ? BlockKind::full : BlockKind::partial;
  };
  const std::int64_t last = block_of(positions.end - 1);
  const BlockKind first = kind_of(block_of(positions.begin));
  if (first == BlockKind::partial) return first;
  for (std::int64_t r = block_of(positions.begin) + 1; r <= last; ++r)
    if (kind_of(r) != first) return BlockKind::partial;
  return first;
}

void BlockRows::outline_row(Row row, const CellGrid& grid, Range cells, Outline& out) const {
  const Range* range = first_reaching(row, grid.keys_of(cells).begin / size_);
  std::int64_t told = cells.begin;  // a range may end in the cell that the next one begins in
  for (; range != row.end && told < cells.end; ++range) {
    const Range keys = keys_of(*range), touched = grid.touched(keys);
    out.add({told, cells.end}, touched, grid.inside(keys));
    told = std::max(told, touched.end);
  }
}

bool BlockRows::outline(const CellGrid& grid, Range cells, Outline& out) const {
  constexpr std::int64_t kMostRowBlocks = 8;  // with more, few cells are full anyway
  const Range blocks = {block_of(grid.positions.begin), block_of(grid.positions.end - 1) + 1};
  if (blocks.size() > kMostRowBlocks) return false;
  if (blocks.size() == 1) {
    outline_row(row(blocks.begin), grid, cells, out);
    return true;
  }
  Outline all, one, both;
  outline_row(row(blocks.begin), grid, cells, all);
  for (std::int64_t block = blocks.begin + 1; block < blocks.end; ++block) {
    one.clear(), both.clear();
    outline_row(row(block), grid, cells, one);
    both.add_rows_of(all, one);
    std::swap(all, both);
  }
  for (const Outline::Run& run : all.runs()) out.add(run.cells, run.kind);
  return true;
}

// The rows of a row-block are equal: the first is filled, the others are copies.
void BlockRows::fill(const TileBits& tile) const {
  const std::int64_t words = tile.words_per_row(), last = (tile.keys.end - 1) / size_;
  for (std::int64_t p = tile.positions.begin; p < tile.positions.end;) {
    const RowBits first = tile.row(p);
    std::fill_n(first.words(), words, 0);
    const Row ranges = row(block_of(p));
    for (const Range* range = first_reaching(ranges, tile.keys.begin / size_);
         range != ranges.end && range->begin <= last; ++range)
      first.allow(keys_of(*range));
    const std::int64_t rows = std::min((block_of(p) + 1) * size_, tile.positions.end) - p;
    for (std::int64_t done = 1; done < rows; done *= 2)
      std::copy_n(first.words(), std::min(done, rows - done) * words, first.words() + done * words);
    p += rows;
  }
}

}  // namespace stof::bound
