// SPDX-License-Identifier: Apache-2.0
// Operations of where() on many 32-bit integers at once, by the widest vectors of the processor. None may overflow or
// divide by zero.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "stof/where.h"

namespace stof::bound {

struct WhereOperation {
  WhereOp op;
  const std::int32_t *a, *b;  // b is not read by operations of one operand
  std::int32_t* out;          // may be an operand
};

// One after the other, on `count` values each, a multiple of 64.
void apply_where(std::span<const WhereOperation> operations, std::size_t count);

// A word for each 64 values, bit i of which is set where value i is not zero.
void where_bits(const std::int32_t* values, std::size_t count, std::uint64_t* words);

}  // namespace stof::bound
