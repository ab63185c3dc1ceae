// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "stof/mask.h"

namespace stof {

// The same mask for an item of `keys` keys, 1 or more, where the arrays, starts and parents that it holds were made for
// one of more: documents, document_ids, blocks and tree have their beginning, all else is as it was.
Mask beginning_of(const Mask& mask, std::int64_t keys);

}  // namespace stof
