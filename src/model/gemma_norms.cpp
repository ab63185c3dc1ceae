// SPDX-License-Identifier: Apache-2.0
#include "src/model/gemma_norms.h"

#include <cmath>
#include <utility>
#include <vector>

#include "src/tensor/convert.h"

namespace stof {
namespace {

bool is_norm(const std::string& name, const TensorView& weight) {
  const bool is_float = weight.dtype == DType::f32 || weight.dtype == DType::f16 || weight.dtype == DType::bf16;
  return name.ends_with("norm.weight") && weight.shape.size() == 1 &&
         is_float;  // others are refused where they are used
}

// What the weights borrow from.
struct Held {
  std::shared_ptr<const void> files;
  std::vector<Tensor> norms = {};
};

}  // namespace

void make_norms_whole(Model& model) {
  const ModelConfig& config = model.config;
  const double of_sums = 1 / std::sqrt(static_cast<double>(config.hidden_size));
  const double of_queries = std::sqrt(static_cast<double>(config.head_dim) / config.score_divisor);
  const auto held = std::make_shared<Held>(Held{.files = std::move(model.mapping)});
  for (auto& [name, weight] : model.weights) {
    if (!is_norm(name, weight)) continue;
    const bool adds = name.find(".post_") != std::string::npos;
    const double factor = adds ? of_sums : name.ends_with(".q_norm.weight") ? of_queries : 1;
    Tensor& whole = held->norms.emplace_back(converted(weight, DType::f32));
    for (std::int64_t i = 0; i < whole.size(); ++i)
      whole.as<float>()[i] = static_cast<float>(factor * (1 + double{whole.as<float>()[i]}));
    weight = whole.view();
  }
  model.mapping = held;
}

}  // namespace stof
