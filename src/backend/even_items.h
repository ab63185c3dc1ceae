// SPDX-License-Identifier: Apache-2.0
// Packed items that lie as those of a padded batch do.
#pragma once
#include <span>

#include "src/backend/contract.h"

namespace stof {

// Whether all items have as many rows and keys as the others and the memory of each lies as far from the one before.
bool items_lie_evenly(std::span<const AttentionItem> items);

}  // namespace stof
