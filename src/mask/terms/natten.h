// SPDX-License-Identifier: Apache-2.0
// natten(): positions are the cells of a grid, row by row; each attends to a window around it that is shifted inwards
// at the borders, so that every query has as many keys.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "src/mask/array_names.h"
#include "src/mask/band_name.h"
#include "src/mask/range.h"
#include "src/mask/row_bits.h"
#include "src/mask/traits.h"

namespace stof::term {

struct Natten {
  std::int64_t height, width, kernel_height, kernel_width;

  bool allows(std::int64_t p, std::int64_t key) const;
  BlockKind classify(Range positions, Range keys) const;
  void fill(const TileBits& tile) const;
  // What the bits of these positions depend on besides position - key, never 0: their column, and where the border
  // shifts a window, all of them. Nothing where too few others would have the same.
  std::optional<std::int64_t> place_of(Range positions) const;
  // Its origin is the first key of the grid row in which the first window begins: it moves with the windows, and stays
  // where the border keeps them. Nothing where too few others would have the same name, and where only some windows are
  // kept.
  std::optional<NamedBand> band_of(Range positions) const;
  std::string print(ArrayNames) const;
  static constexpr MaskTraits traits() { return kLength; }

 private:
  bool repeats(std::int64_t positions) const;
  Range rows_of(std::int64_t y) const;     // grid rows that a query in row y sees
  Range columns_of(std::int64_t x) const;  // grid columns that a query in column x sees
};

}  // namespace stof::term
