// SPDX-License-Identifier: Apache-2.0
// Layouts over many more positions than any item of a call has rows: a prompt that comes in chunks. Looking for an
// item's rows among all row blocks took up to twenty times what computing them takes (docs/kernels/chunks.md), so items
// lie where a slice's first row says. Needs no GPU.
#pragma once
#include <cstdint>
#include <span>

#include "src/backend/cuda/attention/arrange.h"

namespace stof::cuda {

// Of an arrangement: rows of a row block, numbers of a tile, tiles of a step.
struct TileSizes {
  int rows, ints, of_step;
};

struct WindowShape {
  RowWindow window = {};  // without parts: all row blocks are looked at
  int row_blocks = 0;     // that the rows of a slice may lie in
  int items() const { return row_blocks * window.parts; }
};

// Rows of a slice at most, and by how many the row blocks of each layout begin further than those of the one before; 0
// where there is one layout.
struct WindowRows {
  std::int64_t most = 0;
  int shift = 0;
};

// No window where slices may have all rows, where that saves nothing, or where it takes more slots than there are.
WindowShape window_shape(std::span<const ArrangedStream> layouts, const TileSizes& tiles, const WindowRows& rows);

// The items of each group in the order of layouts and their rows, with ones without rows where a row block has fewer
// parts. Row blocks share slots with those that no slice has rows of at the same time.
ArrangedStream in_row_order(std::span<const ArrangedStream> layouts, const TileSizes& tiles, const WindowShape& shape);

}  // namespace stof::cuda
