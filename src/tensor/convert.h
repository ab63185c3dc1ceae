// SPDX-License-Identifier: Apache-2.0
// Copies between f32, f16 and bf16: exact when widening, to nearest even when narrowing. Large ones by all threads.
#pragma once
#include <cstddef>
#include <span>

#include "stof/tensor.h"

namespace stof {

// A contiguous copy in C order. Throws invalid_argument for another dtype.
Tensor converted(const TensorView& from, DType to);

// The same into memory that is there. Throws invalid_argument for another dtype or shape, or `to` not contiguous.
void convert(const TensorView& from, const TensorView& to);

// Of a contiguous tensor.
std::span<const std::byte> stored_bytes(const TensorView& tensor);

}  // namespace stof
