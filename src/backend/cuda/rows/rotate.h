// SPDX-License-Identifier: Apache-2.0
// Heads that positions turn: kernels/cuda/{turned_heads,halves,normed_heads}.cuh as the contract wants them.
#pragma once
#include <string>

#include "src/backend/operations.h"

namespace stof::cuda {

// As RowOperations::rotate.
void rotate(const RowShape& shape, const RotaryHeads& heads, const void* x, void* out);

// Entry points of the units "turned_heads" (one of TurnedHeadsGrid::kGroups), "halves" and "normed_heads".
std::string turn_heads_entry(DType dtype, int groups);
std::string rotate_entry(DType dtype, bool vectors);
std::string rotate_normed_entry(DType dtype, bool vectors);

}  // namespace stof::cuda
