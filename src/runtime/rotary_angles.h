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
  std::int64_t positions = 0, head_dim = 0;  // positions: of the longest text
  double theta = 1e4;
  RotaryScaling scaling = {};
  std::optional<std::int64_t> pairs = {};  // see op::Rotate; those behind them have the angle 0, and no amplitude
  AngleOrder order = AngleOrder::cosines_then_sines;
};

// f32, of the shape that the order has. Where texts of more than scaling.long_after() tokens have other angles, and
// there may be such, theirs are behind those of so many positions: see angles_begin(). The angles are products of two
// floats, as in the definition that checkpoints were trained with: far out its rounding is part of the model.
Tensor rotary_angles(const RotaryShape& shape);

// The row of the table where the angles of a text of so many tokens begin.
constexpr std::int64_t angles_begin(std::int64_t length, std::int64_t long_after) {
  return long_after > 0 && length > long_after ? long_after : 0;
}

// Equal for equal tables only.
std::string text_of(const RotaryShape& shape);

}  // namespace stof
