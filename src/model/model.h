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

// Weights stay mapped while the model lives; views borrow from the mapping.
struct Model {
  std::filesystem::path folder;
  BertConfig config;
  PoolingConfig pooling;
  std::map<std::string, TensorView, std::less<>> weights;
  std::shared_ptr<const void> mapping;

  // Throws bad_file naming the tensor, the shape wanted and the shape found.
  const TensorView& weight(std::string_view name, const Shape& shape) const;
};

// Reads config.json, model.safetensors, modules.json and the pooling config, when there is one. Throws bad_file.
Model read_model(const std::filesystem::path& folder);

}  // namespace stof
