// SPDX-License-Identifier: Apache-2.0
// A checkpoint as read from disk: what the files say, nothing computed.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "src/model/config.h"
#include "stof/tensor.h"

namespace stof {

// Of a tensor that may be a weight.
constexpr bool is_weight_type(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

// Weights stay mapped while the model lives; views borrow from the mapping.
struct Model {
  std::filesystem::path folder;
  ModelConfig config;
  PoolingConfig pooling;
  std::string weights_file = "model.safetensors";  // in the folder; leads what is said about weights
  std::map<std::string, TensorView, std::less<>> weights;
  std::map<std::string, std::string, std::less<>> others;  // tensors that no weight can be, and their dtypes
  std::shared_ptr<const void> mapping;

  // By the name of the family's base model, without a prefix. Throws bad_file naming the tensor, the shape wanted and
  // the shape found.
  bool has(std::string_view name) const { return weights.contains(name) || others.contains(name); }
  const TensorView& weight(std::string_view name, const Shape& shape) const;
};

// Reads config.json, the weights, modules.json and the pooling config, when there is one. Throws bad_file.
Model read_model(const std::filesystem::path& folder);

}  // namespace stof
