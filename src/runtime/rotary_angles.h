// SPDX-License-Identifier: Apache-2.0
// Cosines and sines of the angles that q and k are turned by (op::Rotate).
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "src/model/rotary.h"
#include "stof/tensor.h"

namespace stof {

// What reads the table has it in the order in which it turns: whole rows of q and k, half a head apart, or the pairs
// that a matmul has beside each other (paired_column).
enum class AngleOrder {
  cosines_then_sines,  // [positions][2][head_dim / 2]
  pairs,               // [positions][head_dim / 2][2]: each cosine with its sine
};

struct RotaryShape {
  std::int64_t positions = 0, head_dim = 0;
  double theta = 1e4;
  RotaryScaling scaling = {};
  std::optional<std::int64_t> pairs = {};  // see op::Rotate; those behind them have the angle 0, and no amplitude
  AngleOrder order = AngleOrder::cosines_then_sines;
};

// f32, of the shape that the order has. The angles are products of two floats, as in the definition that checkpoints
// were trained with: far out its rounding is part of the model.
Tensor rotary_angles(const RotaryShape& shape);

// Equal for equal tables only.
std::string text_of(const RotaryShape& shape);

}  // namespace stof
