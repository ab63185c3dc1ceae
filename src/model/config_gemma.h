// SPDX-License-Identifier: Apache-2.0
// What config.json of Gemma 2 and of Gemma 3's text models says besides its sizes.
#pragma once
#include <string_view>

#include "src/model/config.h"
#include "src/model/json.h"

namespace stof {

// Throws bad_file, unsupported.
void read_gemma(const JsonObject& object, std::string_view model_type, ModelConfig& config);

}  // namespace stof
