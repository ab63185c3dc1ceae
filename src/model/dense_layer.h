// SPDX-License-Identifier: Apache-2.0
// A dense layer that sentence-transformers put behind the pooling: y = activation(weight x + bias), of one vector a
// text.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "stof/tensor.h"

namespace stof {

struct DenseLayer {
  TensorView weight;                    // [out, in]
  std::optional<TensorView> bias = {};  // [out]
  std::string activation = {};          // "gelu", "relu", "silu", "tanh"; empty: none
  std::shared_ptr<const void> mapping = {};

  std::int64_t inputs() const { return weight.shape[1]; }
  std::int64_t outputs() const { return weight.shape[0]; }
};

// Of a folder with a config.json and safetensors of its own, of vectors that have so many columns. Throws bad_file, and
// unsupported for an activation that is not known, a residual, and vectors of tokens.
DenseLayer read_dense_layer(const std::filesystem::path& folder, std::int64_t inputs);

}  // namespace stof
