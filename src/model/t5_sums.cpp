// SPDX-License-Identifier: Apache-2.0
#include "src/model/t5_sums.h"

#include <utility>

#include "src/model/made_weights.h"
#include "src/tensor/convert.h"

namespace stof {
namespace {

bool is_added_by_a_layer(const std::string& name) {
  return name.starts_with("encoder.block.") &&
         (name.ends_with(".SelfAttention.o.weight") || name.ends_with(".DenseReluDense.wo.weight"));
}

// In f32 a number of 16 bits stays what it is but for the power of two; those below its least one are lost.
Tensor scaled(const TensorView& weight) {
  Tensor values = converted(weight, DType::f32);
  float* const all = values.as<float>();
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < values.size(); ++i) all[i] *= static_cast<float>(kT5SumScale);
  return weight.dtype == DType::bf16 ? converted(values.view(), DType::bf16) : std::move(values);
}

}  // namespace

std::string_view t5_table(const Model& model) {
  constexpr std::string_view kOwn = "encoder.embed_tokens.weight";
  return model.has(kOwn) ? kOwn : "shared.weight";
}

void make_sums_small(Model& model) {
  const std::string_view table = t5_table(model);
  MadeWeights made(model);
  for (const auto& [name, weight] : model.weights)
    if ((name == table || is_added_by_a_layer(name)) && is_weight_type(weight.dtype)) made.put(name, scaled(weight));
}

}  // namespace stof
