// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/rotary_angles.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

namespace stof {

Tensor rotary_angles(const RotaryShape& shape) {
  const std::int64_t half = shape.head_dim / 2;
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < half; ++i) {
    const float power = static_cast<float>(2 * i) / static_cast<float>(shape.head_dim);
    frequencies.push_back(1.f / static_cast<float>(std::pow(shape.theta, double{power})));
  }
  const bool pairs = shape.order == AngleOrder::pairs;
  Tensor angles(DType::f32, pairs ? Shape{shape.positions, half, 2} : Shape{shape.positions, 2, half});
  const std::int64_t step = pairs ? 2 : 1, sines = pairs ? 1 : half;
#pragma omp parallel for schedule(static)
  for (std::int64_t position = 0; position < shape.positions; ++position) {
    float* const of_position = angles.as<float>() + position * shape.head_dim;
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<float>(position) * frequencies[static_cast<std::size_t>(i)];
      of_position[step * i] = static_cast<float>(std::cos(angle));
      of_position[step * i + sines] = static_cast<float>(std::sin(angle));
    }
  }
  return angles;
}

std::string text_of(const RotaryShape& shape) {
  return fmt::format("rotary {} {} {} {}", shape.positions, shape.head_dim, shape.theta,
                     shape.order == AngleOrder::pairs ? "pairs" : "cosines, sines");
}

}  // namespace stof
