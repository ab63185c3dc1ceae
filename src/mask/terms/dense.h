// SPDX-License-Identifier: Apache-2.0
// bits(): an array with one element per (row, key).
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "src/mask/bit_array.h"
#include "src/mask/outline.h"
#include "src/mask/traits.h"

namespace stof::term {

struct Bits {
  std::shared_ptr<const BitArray> array;  // [N, M], [H, N, M] or [B, H, N, M]; dimensions of 1 broadcast
  std::string print(ArrayNames names) const;
  MaskTraits traits() const;
};

}  // namespace stof::term

namespace stof::bound {

// One slice of the array, for rows that start at position `offset`.
class DenseBits {
 public:
  DenseBits(std::shared_ptr<const BitArray> array, std::int64_t slice, std::int64_t offset)
      : array_(std::move(array)), slice_(slice), offset_(offset) {}

  bool allows(std::int64_t p, std::int64_t key) const;
  BlockKind classify(Range positions, Range keys) const;
  // False for cells that are not the array's own.
  bool outline(const CellGrid& grid, Range cells, Outline& out) const;
  void fill(const TileBits& tile) const;
  // Of rows from position p on and keys from `key` on, where the array's own cells begin there; else without words.
  StoredCell stored_cell(std::int64_t p, std::int64_t key) const;

 private:
  bool one_row() const { return array_->rows == 1; }  // for all rows
  bool one_column() const { return array_->columns == 1; }
  void fill_repeated(const TileBits& tile) const;
  // The bits of `rows` rows from position p on, which lie in one row of cells.
  void fill_rows(std::int64_t p, std::int64_t rows, const TileBits& tile) const;

  std::shared_ptr<const BitArray> array_;
  std::int64_t slice_, offset_;
};

}  // namespace stof::bound
