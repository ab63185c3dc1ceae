// SPDX-License-Identifier: Apache-2.0
#include "src/mask/density_grid.h"

#include <algorithm>
#include <bit>

#include "src/base/error.h"
#include "src/mask/cell_scan.h"

namespace stof {
namespace {

constexpr std::int64_t kScan = 64;  // rows of a scanned band, keys of its cells

class Counter {
 public:
  Counter(DensityGrid& grid, const CellScan& scan) : grid_(grid), scan_(scan) {}

  void add(Range rows) {
    for (const CellRun& run : scan_.runs())
      if (run.full) add_full(rows, scan_.keys_of(run));
      else add_partial(rows, run);
  }

 private:
  std::int64_t& at(std::int64_t row, std::int64_t key) {
    return grid_.allowed[static_cast<std::size_t>(row / grid_.cell.rows * grid_.columns + key / grid_.cell.keys)];
  }

  void add_full(Range rows, Range keys) {
    for (std::int64_t row = rows.begin; row < rows.end;) {
      const std::int64_t next_row = std::min(rows.end, (row / grid_.cell.rows + 1) * grid_.cell.rows);
      for (std::int64_t key = keys.begin; key < keys.end;) {
        const std::int64_t next_key = std::min(keys.end, (key / grid_.cell.keys + 1) * grid_.cell.keys);
        at(row, key) += (next_row - row) * (next_key - key);
        key = next_key;
      }
      row = next_row;
    }
  }

  void add_partial(Range rows, const CellRun& run) {
    const Range keys = scan_.keys_of(run);
    const std::span<const std::uint64_t> bits = scan_.bits(run);
    const std::int64_t step = std::min(grid_.cell.keys, kScan);
    const std::uint64_t low = step == kScan ? ~std::uint64_t{0} : (std::uint64_t{1} << step) - 1;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const std::uint64_t word = bits[static_cast<std::size_t>(row - rows.begin)];
      for (std::int64_t shift = 0; shift < keys.size(); shift += step)
        at(row, keys.begin + shift) += std::popcount(word >> shift & low);
    }
  }

  DensityGrid& grid_;
  const CellScan& scan_;
};

bool nests(std::int64_t side) {
  return side > 0 && (side % kScan == 0 || (side < kScan && std::has_single_bit(static_cast<std::uint64_t>(side))));
}

}  // namespace

std::int64_t cell_side(std::int64_t length, std::int64_t most_cells) {
  std::int64_t side = 1;
  while (side < kScan && ceil_div(length, side) > most_cells) side *= 2;
  if (ceil_div(length, side) <= most_cells) return side;
  return ceil_div(ceil_div(length, most_cells), kScan) * kScan;
}

double DensityGrid::density(std::int64_t row, std::int64_t column) const {
  const Range in_rows = intersect({row * cell.rows, (row + 1) * cell.rows}, {0, extent.queries});
  const Range in_keys = intersect({column * cell.keys, (column + 1) * cell.keys}, {0, extent.keys});
  return static_cast<double>(allowed[static_cast<std::size_t>(row * columns + column)]) /
         static_cast<double>(in_rows.size() * in_keys.size());
}

DensityGrid density_grid(const BoundMask& mask, int group, const GridCell& cell) {
  STOF_CHECK(nests(cell.rows) && nests(cell.keys));
  const MaskExtent& extent = mask.extent();
  DensityGrid grid{.extent = extent,
                   .cell = cell,
                   .rows = ceil_div(extent.queries, cell.rows),
                   .columns = ceil_div(extent.keys, cell.keys)};
  grid.allowed.resize(static_cast<std::size_t>(grid.rows * grid.columns));
  CellScan scan(mask, kScan);
  Counter counter(grid, scan);
  for (std::int64_t begin = 0; begin < extent.queries; begin += kScan) {
    const Range rows = {begin, std::min(begin + kScan, extent.queries)};
    scan.scan(group, rows);
    counter.add(rows);
  }
  return grid;
}

}  // namespace stof
