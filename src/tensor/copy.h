// SPDX-License-Identifier: Apache-2.0
// Copies elements between views of one dtype and shape, whatever their strides.
#pragma once
#include "stof/tensor.h"

namespace stof {

// Throws invalid_argument when dtype or shape differ. The views must not overlap.
void copy(const TensorView& from, const TensorView& to);

}  // namespace stof
