// SPDX-License-Identifier: Apache-2.0
// What config.json of Nomic Embed's encoder says besides its sizes, in the words of its first code and of transformers.
#pragma once
#include <cstdint>
#include <string_view>

#include "src/model/config.h"
#include "src/model/json.h"

namespace stof {

// The width of the feed-forward part, by the name that it has. Throws bad_file.
std::int64_t read_nomic_width(const JsonObject& object, std::string_view key, const ModelConfig& config);

// Throws bad_file, unsupported.
void read_nomic(const JsonObject& object, ModelConfig& config);

}  // namespace stof
