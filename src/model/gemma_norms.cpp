// SPDX-License-Identifier: Apache-2.0
#include "src/model/gemma_norms.h"

#include <cmath>
#include <utility>

#include "src/model/made_weights.h"
#include "src/tensor/convert.h"

namespace stof {
namespace {

bool is_norm(const std::string& name, const TensorView& weight) {
  return name.ends_with("norm.weight") && weight.shape.size() == 1 &&
         is_weight_type(weight.dtype);  // others are refused where they are used
}

}  // namespace

void make_norms_whole(Model& model) {
  const ModelConfig& config = model.config;
  const double of_sums = 1 / std::sqrt(static_cast<double>(config.hidden_size));
  const double of_queries = std::sqrt(static_cast<double>(config.head_dim) / config.score_divisor);
  MadeWeights made(model);
  for (const auto& [name, weight] : model.weights) {
    if (!is_norm(name, weight)) continue;
    const bool adds = name.find(".post_") != std::string::npos;
    const double factor = adds ? of_sums : name.ends_with(".q_norm.weight") ? of_queries : 1;
    Tensor whole = converted(weight, DType::f32);
    for (std::int64_t i = 0; i < whole.size(); ++i)
      whole.as<float>()[i] = static_cast<float>(factor * (1 + double{whole.as<float>()[i]}));
    made.put(name, std::move(whole));
  }
}

}  // namespace stof
