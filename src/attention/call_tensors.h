// SPDX-License-Identifier: Apache-2.0
// The tensors of one run, and the factors of its scores, whatever says which rows are an item's.
#pragma once
#include <string_view>

#include "stof/attention.h"

namespace stof {

// Throws invalid_argument naming the tensor, what was got and what is accepted: of another dtype or shape, without
// memory, or written where rows share it.
void check_tensors(const AttentionArguments& arguments, const AttentionShape& shape, bool packed);
// Throws invalid_argument where there are elements, and no address.
void check_has_memory(std::string_view name, const TensorView& tensor);

}  // namespace stof
