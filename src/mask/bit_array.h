// SPDX-License-Identifier: Apache-2.0
// A dense boolean array, packed to bits on construction: the leaf behind bits() and blocks().
#pragma once
#include <cstdint>
#include <memory>
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
};

struct BitArray {
  Shape shape;  // of the tensor it was made from; the last two dimensions are rows and columns
  std::int64_t slices = 1, rows = 0, columns = 0;
  std::int64_t row_words = 0;
  std::vector<std::uint64_t> words;           // [slices][rows][row_words], bits past `columns` are 0
  std::vector<std::int64_t> slice_of;         // [slices]: the first slice with equal content
  std::vector<std::vector<CellLevel>> cells;  // [slices][levels], empty for a slice that repeats an earlier one
  ArraySource source;

  const std::uint64_t* row(std::int64_t slice, std::int64_t index) const {
    return words.data() + (slice * rows + index) * row_words;
  }
};

// `what` names the term in errors. The tensor is bool with two dimensions or more; any strides.
std::shared_ptr<const BitArray> pack_bits(const TensorView& tensor, const std::string& file);

}  // namespace stof
