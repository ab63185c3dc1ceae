// SPDX-License-Identifier: Apache-2.0
// What config.json of Llama, Mistral, Qwen2, Qwen3, Phi-3 and EuroBERT says beside sizes: heads, windows, angles, which
// biases there are.
#pragma once
#include <string_view>

#include "src/model/config.h"
#include "src/model/json.h"

namespace stof {

// Throws bad_file, unsupported.
void read_llama(const JsonObject& object, std::string_view model_type, ModelConfig& config);

}  // namespace stof
