// SPDX-License-Identifier: Apache-2.0
// Copies between f32, f16 and bf16: exact when widening, to nearest even when narrowing.
#pragma once
#include "stof/tensor.h"

namespace stof {

// A contiguous copy in C order. Throws invalid_argument for another dtype.
Tensor converted(const TensorView& from, DType to);

}  // namespace stof
