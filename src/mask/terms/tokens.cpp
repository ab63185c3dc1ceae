// SPDX-License-Identifier: Apache-2.0
#include "src/mask/terms/tokens.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace stof::term {

std::string Sink::print(ArrayNames) const { return fmt::format("sink({})", count); }

std::string Prefix::print(ArrayNames) const { return fmt::format("prefix({})", count); }

std::string Global::print(ArrayNames) const {
  if (positions.empty()) return fmt::format("global({})", first);
  std::string text = "global([";
  for (std::int64_t i = 0; i < first; ++i) text += fmt::format("{},", i);
  return text + fmt::format("{}])", fmt::join(positions, ","));
}

bool Global::chosen(std::int64_t x) const {
  return (0 <= x && x < first) || std::binary_search(positions.begin(), positions.end(), x);
}

BlockKind Global::chosen(Range range) const {
  if (Range{0, first}.contains(range)) return BlockKind::full;
  if (!intersect(range, {0, first}).empty()) return BlockKind::partial;
  const auto begin = std::lower_bound(positions.begin(), positions.end(), range.begin);
  const auto end = std::lower_bound(begin, positions.end(), range.end);
  if (begin == end) return BlockKind::empty;
  return end - begin == range.size() ? BlockKind::full : BlockKind::partial;
}

BlockKind Global::classify(Range positions_, Range keys) const { return std::max(chosen(positions_), chosen(keys)); }

bool Global::outline(const CellGrid& grid, Range cells, Outline& out) const {
  if (!positions.empty()) return false;
  const BlockKind rows = chosen(grid.positions);
  const Range columns = {0, first};
  if (rows == BlockKind::empty) out.add(cells, grid.touched(columns), grid.inside(columns));
  else out.add(cells, grid.all(), rows == BlockKind::full ? grid.all() : grid.inside(columns));
  return true;
}

void Global::fill(std::int64_t p, RowBits row) const {
  if (chosen(p)) return row.allow(row.keys());
  row.allow(Range{0, first});
  const auto begin = std::lower_bound(positions.begin(), positions.end(), row.keys().begin);
  for (auto it = begin; it != positions.end() && *it < row.keys().end; ++it) row.allow(*it);
}

}  // namespace stof::term
