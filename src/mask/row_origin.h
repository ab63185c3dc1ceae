// SPDX-License-Identifier: Apache-2.0
// Where the rows of a mask are cut into blocks.
#pragma once
#include <cstdint>

#include "src/mask/range.h"

namespace stof {

enum class RowOrigin : std::uint8_t {
  zero,       // at positions that are multiples of a block's height, as tiles of keys are, and the blocks of masks
  first_row,  // from the first row on, or a few positions before it: the rows are in as few blocks as can hold them
};

// A position at which a block begins: the others begin multiples of their height from it.
std::int64_t row_origin(const MaskExtent& extent, RowOrigin origin);
// Where the block of this height begins that has the position.
std::int64_t row_block_at(const MaskExtent& extent, RowOrigin origin, std::int64_t height, std::int64_t position);
// Whether the rows, which are not many, are in fewer blocks of some height when these begin with the first of them.
bool first_row_saves_blocks(const MaskExtent& extent);

}  // namespace stof
