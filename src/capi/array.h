// SPDX-License-Identifier: Apache-2.0
// Arrays and dtypes as C says them.
#pragma once
#include <string_view>

#include "stof/stof.h"
#include "stof/tensor.h"

namespace stof::capi {

// Throws invalid_argument with the value got and the values accepted.
DType dtype_of(std::string_view name, std::int32_t dtype);

// Throws invalid_argument where elements of the dtype cannot lie at the address.
void check_aligned(std::string_view name, const void* address, DType dtype);

// A view of the caller's array, checked as far as that can be. `name`: "stof_mask_bits: allowed".
TensorView view_of(const stof_array* array, std::string_view name);

}  // namespace stof::capi
