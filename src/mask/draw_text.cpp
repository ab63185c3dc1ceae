// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "src/base/counted.h"
#include "src/mask/density_grid.h"
#include "src/mask/draw.h"

namespace stof {
namespace {

constexpr std::int64_t kMostColumns = 64;
constexpr std::string_view kNone = "·", kSome = "▒", kAll = "█";

// A character of a terminal is about twice as high as wide: a cell of more than one element is made so, and small masks
// take two characters an element.
struct Scale {
  GridCell cell;
  int characters = 1;  // of a cell
};

Scale scale_for(const MaskExtent& extent) {
  const std::int64_t longest = std::max(extent.queries, extent.keys);
  const std::int64_t side = cell_side(longest, kMostColumns);
  if (side == 1) return {.cell = {1, 1}, .characters = 2 * longest <= kMostColumns ? 2 : 1};
  return {.cell = {2 * side, side}};
}

std::string_view character(double density) { return density == 0 ? kNone : density == 1 ? kAll : kSome; }

}  // namespace

std::string draw_text(const BoundMask& mask, int group) {
  const auto [cell, characters] = scale_for(mask.extent());
  const DensityGrid grid = density_grid(mask, group, cell);
  const std::size_t label = std::to_string(std::max<std::int64_t>(grid.rows - 1, 0) * cell.rows).size();
  std::string text;
  for (std::int64_t row = 0; row < grid.rows; ++row) {
    text += fmt::format("{:>{}} ", row * cell.rows, label);
    for (std::int64_t column = 0; column < grid.columns; ++column)
      for (int i = 0; i < characters; ++i) text += character(grid.density(row, column));
    text += '\n';
  }
  const std::string covers =
      fmt::format("{} x {}", counted(cell.rows, "query", "queries"), counted(cell.keys, "key", "keys"));
  return text + fmt::format("{} all  {} some  {} none; each {}\n", kAll, kSome, kNone, covers);
}

}  // namespace stof
