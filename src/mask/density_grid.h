// SPDX-License-Identifier: Apache-2.0
// A mask counted exactly on a coarse grid, for drawing.
#pragma once
#include <cstdint>
#include <vector>

#include "src/mask/bind.h"

namespace stof {

// Elements in a cell of the grid: a power of two up to 64, or a multiple of 64, so that cells and the 64 x 64 cells of
// a scan nest.
struct GridCell {
  std::int64_t rows = 1, keys = 1;
  friend bool operator==(const GridCell&, const GridCell&) = default;
};

// The smallest side that cuts `length` elements into at most `most_cells` cells.
std::int64_t cell_side(std::int64_t length, std::int64_t most_cells);

struct DensityGrid {
  MaskExtent extent;
  GridCell cell;
  std::int64_t rows = 0, columns = 0;
  std::vector<std::int64_t> allowed = {};  // [rows][columns] allowed pairs

  // Allowed pairs / pairs inside the extent: exactly 0 or 1 for an empty or full cell.
  double density(std::int64_t row, std::int64_t column) const;
};

// The cost follows the boundary of the mask, as that of measure() does.
DensityGrid density_grid(const BoundMask& mask, int group, const GridCell& cell);

}  // namespace stof
