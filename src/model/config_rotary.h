// SPDX-License-Identifier: Apache-2.0
// What config.json of models with RoPE says in the same words: limits, which layers see how far, how angles are scaled.
#pragma once
#include <optional>
#include <vector>

#include "src/model/config.h"
#include "src/model/json.h"

namespace stof {

// Throws bad_file where layers or positions are more than memory is for.
void check_rotary_sizes(const JsonObject& object, const ModelConfig& config);

// `layer_types`: of each layer whether it sees everything; nothing where the file does not say.
std::optional<std::vector<bool>> read_layer_types(const JsonObject& object, std::int64_t layers);

// theta and scaling for all layers, in the words of transformers 4 (rope_theta, rope_scaling) and of 5
// (rope_parameters). Throws bad_file, unsupported.
RotaryLayer read_rotary(const JsonObject& object, const ModelConfig& config);

}  // namespace stof
