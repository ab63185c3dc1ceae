// SPDX-License-Identifier: Apache-2.0
// Mask to layout and back.
#pragma once
#include "src/layout/block_layout.h"
#include "stof/tensor.h"

namespace stof {

BlockLayout pack_blocks(const BoundMask& mask, const BlockFormat& format);
RowLayout pack_rows(const BoundMask& mask);

// bool [groups, queries, keys]
Tensor unpack(const BlockLayout& layout);
Tensor unpack(const RowLayout& layout);

// Throws internal, naming the first invariant that does not hold.
void validate(const BlockLayout& layout);
void validate(const RowLayout& layout);

}  // namespace stof
