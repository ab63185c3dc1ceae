// SPDX-License-Identifier: Apache-2.0
// Layouts over many more positions than any item of a call has rows: a prompt that comes in chunks. Looking for an
// item's rows among all row blocks took up to twenty times what computing them takes (docs/kernels/chunks.md), so items
// lie where a slice's first row says. Needs no GPU.
#pragma once
#include <cstdint>

#include "src/backend/cuda/attention/arrange.h"

namespace stof::cuda {

struct WindowShape {
  RowWindow window = {};  // without parts: all row blocks are looked at
  int row_blocks = 0;     // that the rows of a slice may lie in
  int items() const { return row_blocks * window.parts; }
};

// most: rows of a slice at most, 0 where it may have all. No window there, where it saves nothing, and where it takes
// more slots than there are.
WindowShape window_shape(const ArrangedStream& layout, int block_rows, std::int64_t most);

// The items of each group in the order of their rows, with ones without rows where a row block has fewer parts. Row
// blocks share slots with those that no slice has rows of at the same time.
void put_in_row_order(ArrangedStream& layout, int block_rows, const WindowShape& shape);

}  // namespace stof::cuda
