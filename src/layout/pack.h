// SPDX-License-Identifier: Apache-2.0
// Mask to layout and back.
#pragma once
#include <cstdint>

#include "src/base/memory.h"
#include "src/layout/block_layout.h"
#include "stof/tensor.h"

namespace stof {

// Throws unsupported for a layout above most_bytes: a quarter of the memory, for a list that grows is there twice for a
// moment, and a kernel's arrangement of it takes as much.
BlockLayout pack_blocks(const BoundMask& mask, const BlockFormat& format,
                        std::uint64_t most_bytes = memory_limit() / 4);
RowLayout pack_rows(const BoundMask& mask, std::uint64_t most_bytes = memory_limit() / 4);

// bool [groups, queries, keys]
Tensor unpack(const BlockLayout& layout);
Tensor unpack(const RowLayout& layout);

// Throws internal, naming the first invariant that does not hold.
void validate(const BlockLayout& layout);
void validate(const RowLayout& layout);

}  // namespace stof
