// SPDX-License-Identifier: Apache-2.0
// Sizes of models that checkpoints exist of, for models with random weights.
#pragma once
#include <string>

#include "src/model/config.h"

namespace stof::cli {

// As random_model() names them (random_model.h), with vocabularies of 1000: looking up costs nothing that grows with
// them. Throws invalid_argument.
ModelConfig config_named(const std::string& name);

}  // namespace stof::cli
