// SPDX-License-Identifier: Apache-2.0
// A dense boolean array, packed to bits on construction: the leaf behind bits() and blocks().
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/mask/array_names.h"
#include "src/mask/row_bits.h"
#include "stof/tensor.h"

namespace stof {

// What each 64 x 64 cell of one slice holds, with coarser levels above: cell (r, c) of level l covers rows and columns
// [64 r 2^l, 64 (r + 1) 2^l). Cells at the edge count what exists.
struct CellLevel {
  std::int64_t rows = 0, columns = 0;
  std::vector<BlockKind> kinds;
  BlockKind at(std::int64_t row, std::int64_t column) const {
    return kinds[static_cast<std::size_t>(row * columns + column)];
  }
  std::span<const BlockKind> row(std::int64_t row, Range of) const {
    return std::span(kinds).subspan(static_cast<std::size_t>(row * columns + of.begin),
                                    static_cast<std::size_t>(of.size()));
  }
};

// Words are stored cell by cell, [slices][row cells][word columns][64 rows]: an aligned 64 x 64 tile is contiguous.
// Bits past the last row and column are 0.
struct BitArray {
  Shape shape;  // of the tensor it was made from; the last two dimensions are rows and columns
  std::int64_t slices = 1, rows = 0, columns = 0;
  std::vector<std::uint64_t> words;
  std::vector<std::int32_t> allowed;          // pairs, [slices][row cells][word columns]
  std::vector<std::uint64_t> used;            // columns with one, [slices][row cells][word columns]
  std::vector<std::int64_t> slice_of;         // [slices]: the first slice with equal content
  std::vector<std::vector<CellLevel>> cells;  // [slices][levels], empty for a slice that repeats an earlier one
  ArraySource source;

  std::int64_t row_cells() const { return words_for(rows); }
  std::int64_t word_columns() const { return words_for(columns); }
  std::int64_t slice_words() const { return row_cells() * word_columns() * 64; }
  // 64 words, one a row; that of `row` is [row & 63].
  const std::uint64_t* cell(std::int64_t slice, std::int64_t row, std::int64_t word_column) const {
    return words.data() + slice * slice_words() + ((row >> 6) * word_columns() + word_column) * 64;
  }
  StoredCell stored_cell(std::int64_t slice, std::int64_t row, std::int64_t word_column) const {
    const std::uint64_t* of_cell = cell(slice, row, word_column);
    const auto index = static_cast<std::size_t>((of_cell - words.data()) / 64);
    return {of_cell, allowed[index], used[index]};
  }
  bool at(std::int64_t slice, std::int64_t row, std::int64_t column) const {
    return cell(slice, row, column >> 6)[row & 63] >> (column & 63) & 1;
  }
};

// The tensor is bool with two dimensions or more; any strides.
std::shared_ptr<const BitArray> pack_bits(const TensorView& tensor, const std::string& file);

}  // namespace stof
