// SPDX-License-Identifier: Apache-2.0
// The draft trees of a call: what it may say of them.
#pragma once
#include "src/backend/contract.h"

namespace stof {

// Of a call of so many items. Throws invalid_argument naming what was got and what is accepted.
DraftTrees draft_trees(const AttentionArguments& arguments, const AttentionShape& shape, std::int64_t items);

}  // namespace stof
