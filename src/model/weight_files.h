// SPDX-License-Identifier: Apache-2.0
// The weights of a checkpoint: model.safetensors, or the shards that model.safetensors.index.json lists.
#pragma once
#include <filesystem>
#include <string>

#include "src/model/safetensors.h"

namespace stof {

struct WeightFiles {
  std::string file;  // in the folder: what names the tensors
  TensorFile tensors;
};

// Throws bad_file for what is missing, for a tensor in two shards, and for one that is not where the index has it.
WeightFiles read_weight_files(const std::filesystem::path& folder);

}  // namespace stof
