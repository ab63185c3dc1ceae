// SPDX-License-Identifier: Apache-2.0
// What a checkpoint says of the texts that a decoder makes: where they end, and what would change them.
#pragma once
#include <filesystem>

#include "src/model/config.h"
#include "src/model/json.h"

namespace stof {

// generation_config.json, and of config.json, which is `object`, the tokens that end a text. Throws bad_file.
void read_generation(const std::filesystem::path& folder, const JsonObject& object, ModelConfig& config);

}  // namespace stof
