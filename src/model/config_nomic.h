// SPDX-License-Identifier: Apache-2.0
// What config.json of Nomic Embed's encoder says besides its sizes, in the words of its first code and of transformers.
#pragma once
#include "src/model/config.h"
#include "src/model/json.h"

namespace stof {

// Throws bad_file, unsupported.
void read_nomic(const JsonObject& object, ModelConfig& config);

}  // namespace stof
