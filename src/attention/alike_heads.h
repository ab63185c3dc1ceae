// SPDX-License-Identifier: Apache-2.0
// Query heads that a kernel may take for rows of one matmul: they see the same keys, by the same key head.
#pragma once
#include <cstdint>

#include "src/mask/bind.h"
#include "stof/attention.h"

namespace stof {

// The largest number so that any so many query heads from a multiple of it on share their key head and, in every item,
// their mask, and with it every divisor; 1 where heads have key heads of their own.
std::int64_t alike_heads(const BoundMask& mask, const AttentionShape& shape);

}  // namespace stof
