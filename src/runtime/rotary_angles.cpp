// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/rotary_angles.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace stof {
namespace {

// How often a pair of this frequency turns within the texts of the training.
double turns_of(double frequency, const RotaryScaling& scaling) {
  return scaling.trained_positions * frequency / (2 * std::numbers::pi);
}

// Of a head, those that turn.
std::int64_t turned_columns(const RotaryShape& shape) { return shape.pairs ? 2 * *shape.pairs : shape.head_dim; }

// The pair that turns so often, as a number between pairs.
double pair_of(double turns, const RotaryShape& shape) {
  const double dim = static_cast<double>(turned_columns(shape));
  return dim * std::log(shape.scaling.trained_positions / (turns * 2 * std::numbers::pi)) / (2 * std::log(shape.theta));
}

// From 0 at `many` turns to 1 at `few`: how much of the slowing pair i gets. As YaRN's authors have it, with ends at
// whole pairs unless the checkpoint says otherwise.
double slowing_by_pair(std::int64_t i, const RotaryShape& shape) {
  double low = pair_of(shape.scaling.many, shape), high = pair_of(shape.scaling.few, shape);
  if (shape.scaling.whole_pairs) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, static_cast<double>(turned_columns(shape) - 1));
  if (low == high) high += 0.001;
  return std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
}

float scaled(float frequency, std::int64_t i, const RotaryShape& shape) {
  const RotaryScaling& scaling = shape.scaling;
  const auto factor = static_cast<float>(scaling.factor);
  const auto between = [&](double slowing) {
    return static_cast<float>(slowing * (double{frequency} / scaling.factor) + (1 - slowing) * double{frequency});
  };
  switch (scaling.kind) {
    case RotaryScaling::Kind::none: return frequency;
    case RotaryScaling::Kind::linear: return frequency / factor;
    case RotaryScaling::Kind::llama3:
      return between(
          std::clamp((scaling.many - turns_of(frequency, scaling)) / (scaling.many - scaling.few), 0.0, 1.0));
    case RotaryScaling::Kind::yarn: return between(slowing_by_pair(i, shape));
    case RotaryScaling::Kind::longrope: return frequency;  // has been slowed
  }
  return frequency;
}

// slowed_by: of each pair; empty: as the scaling says.
std::vector<float> frequencies_of(const RotaryShape& shape, const std::vector<float>& slowed_by) {
  const std::int64_t turned = turned_columns(shape);
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < turned / 2; ++i) {
    const float power = static_cast<float>(2 * i) / static_cast<float>(turned);
    const float slowness = slowed_by.empty() ? 1.f : slowed_by[static_cast<std::size_t>(i)];
    frequencies.push_back(
        scaled(1.f / (slowness * static_cast<float>(std::pow(shape.theta, double{power}))), i, shape));
  }
  return frequencies;
}

// Of the table the rows from `first` on: those of positions from 0 on.
void fill(Tensor& angles, std::int64_t first, std::int64_t rows, const std::vector<float>& frequencies,
          const RotaryShape& shape) {
  const std::int64_t half = shape.head_dim / 2;
  const std::int64_t step = shape.order == AngleOrder::pairs ? 2 : 1, sines = step == 2 ? 1 : half;
  const double amplitude = shape.scaling.amplitude;
#pragma omp parallel for schedule(static)
  for (std::int64_t position = 0; position < rows; ++position) {
    float* const of_position = angles.as<float>() + (first + position) * shape.head_dim;
    for (std::int64_t i = 0; i < half; ++i) {
      const bool turns = i < std::ssize(frequencies);
      const double angle = turns ? static_cast<float>(position) * frequencies[static_cast<std::size_t>(i)] : 0;
      of_position[step * i] = static_cast<float>(std::cos(angle) * (turns ? amplitude : 1));
      of_position[step * i + sines] = static_cast<float>(std::sin(angle) * amplitude);
    }
  }
}

}  // namespace

Tensor rotary_angles(const RotaryShape& shape) {
  const std::int64_t half = shape.head_dim / 2;
  const std::int64_t others = angles_begin(shape.positions, shape.scaling.long_after()),
                     rows = others + shape.positions;
  Tensor angles(DType::f32, shape.order == AngleOrder::pairs ? Shape{rows, half, 2} : Shape{rows, 2, half});
  fill(angles, 0, others > 0 ? others : rows, frequencies_of(shape, shape.scaling.short_factors), shape);
  if (others > 0) fill(angles, others, shape.positions, frequencies_of(shape, shape.scaling.long_factors), shape);
  return angles;
}

std::string text_of(const RotaryShape& shape) {
  return fmt::format("rotary {} {}/{} {} ({}) {}", shape.positions, turned_columns(shape), shape.head_dim, shape.theta,
                     text_of(shape.scaling), shape.order == AngleOrder::pairs ? "pairs" : "cosines, sines");
}

}  // namespace stof
