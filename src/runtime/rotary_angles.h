// SPDX-License-Identifier: Apache-2.0
// Cosines and sines of the angles that q and k are turned by (op::Rotate).
#pragma once
#include <string>

#include "stof/tensor.h"

namespace stof {

struct RotaryShape {
  std::int64_t positions = 0, head_dim = 0;
  double theta = 1e4;
  bool by_pairs = false;  // [positions][head_dim / 2][2]: each cosine with its sine
};

// f32 [positions][2][head_dim / 2]: cosines, sines. The angles are products of two floats, as in the definition that
// checkpoints were trained with: far out its rounding is part of the model.
Tensor rotary_angles(const RotaryShape& shape);

std::string text_of(const RotaryShape& shape);

}  // namespace stof
