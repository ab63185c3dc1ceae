// SPDX-License-Identifier: Apache-2.0
// What only the config.json of MPNet, T5, mT5 and UMT5 say: positions by distance, and feed-forward parts by one name.
#pragma once
#include <string_view>

#include "src/model/config.h"
#include "src/model/json.h"

namespace stof {

// Throws bad_file, unsupported.
void read_mpnet(const JsonObject& object, ModelConfig& config);
// Of the encoder; model_type: t5, mt5 or umt5, whose defaults differ.
void read_t5(const JsonObject& object, std::string_view model_type, ModelConfig& config);

}  // namespace stof
