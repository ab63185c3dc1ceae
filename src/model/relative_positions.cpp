// SPDX-License-Identifier: Apache-2.0
#include "src/model/relative_positions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "src/model/made_weights.h"
#include "src/tensor/convert.h"

namespace stof {
namespace {

std::vector<std::string> tables_of(const ModelConfig& config) {
  if (config.family == Family::mpnet) return {"encoder.relative_attention_bias"};
  std::vector<std::string> names;
  const std::int64_t layers = config.relative.each_layer ? config.layers : std::min<std::int64_t>(config.layers, 1);
  for (std::int64_t layer = 0; layer < layers; ++layer)
    names.push_back(fmt::format("encoder.block.{}.layer.0.SelfAttention.relative_attention_bias", layer));
  return names;
}

Tensor by_distance(const TensorView& table, const RelativePositions& relative) {
  const std::int64_t heads = table.dim(1), reach = reach_of(relative), places = 2 * reach + 1;
  const Tensor values = converted(table, DType::f32);
  Tensor bias(DType::f32, {heads, places});
  for (std::int64_t distance = -reach; distance <= reach; ++distance) {
    const std::int64_t bucket = bucket_of(distance, relative);
    for (std::int64_t head = 0; head < heads; ++head)
      bias.as<float>()[head * places + reach + distance] = values.as<float>()[bucket * heads + head];
  }
  return bias;
}

}  // namespace

// The logarithm is that of f32 as it is rounded best, of which all else is made in f32: where a distance is the first
// of a bucket the quotient is a whole number.
std::int64_t bucket_of(std::int64_t distance, const RelativePositions& relative) {
  const std::int64_t half = relative.buckets / 2, exact = half / 2, away = std::abs(distance);
  const std::int64_t side = distance > 0 ? half : 0;
  if (away < exact) return side + away;
  const auto log_of = [](float x) { return static_cast<float>(std::log(static_cast<double>(x))); };
  const float from = log_of(static_cast<float>(away) / static_cast<float>(exact));
  const auto to = static_cast<float>(
      std::log(static_cast<double>(relative.max_distance) / static_cast<double>(exact)));  // of Python's numbers
  const auto further = static_cast<std::int64_t>(from / to * static_cast<float>(half - exact));
  return side + std::min(exact + further, half - 1);
}

std::int64_t reach_of(const RelativePositions& relative) {
  const std::int64_t last = relative.buckets / 2 - 1;
  std::int64_t reach = 1;
  while (bucket_of(-reach, relative) != last) ++reach;
  return reach;
}

void add_biases_by_distance(Model& model) {
  const ModelConfig& config = model.config;
  if (config.relative.buckets == 0) return;
  MadeWeights made(model);
  for (const std::string& name : tables_of(config)) {
    const TensorView& table = model.weight(name + ".weight", {config.relative.buckets, config.heads});
    made.put(name + std::string(kByDistance), by_distance(table, config.relative));
  }
}

}  // namespace stof
