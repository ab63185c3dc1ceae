// SPDX-License-Identifier: Apache-2.0
// Names of activations in config.json.
#pragma once
#include <string>
#include <string_view>

#include "src/model/json.h"

namespace stof {

// "gelu", "gelu_new", "relu" or "silu", as ModelConfig has it, for the name that stands in the file under `key` or what
// else is made of it. Throws unsupported for another one.
std::string usual_activation_name(const JsonObject& object, std::string_view key, std::string_view name);
// Of what the file says, or of `otherwise`.
std::string read_activation(const JsonObject& object, std::string_view key, std::string_view otherwise);

}  // namespace stof
