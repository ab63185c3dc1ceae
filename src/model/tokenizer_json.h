// SPDX-License-Identifier: Apache-2.0
// What the readers of the parts of tokenizer.json share.
#pragma once
#include <cstdint>
#include <string_view>

#include "src/model/byte_level.h"
#include "src/model/json.h"

namespace stof {

// Throws unsupported for another "type".
void check_type(const JsonObject& object, std::string_view accepted);
bool is_id(const nlohmann::json& value);
// Throws bad_file naming `where`.
std::int32_t read_id(const nlohmann::json& value, std::string_view where);

// Of a tokenizer whose model is BPE: whether texts are brought to form NFC; nothing else may be done to them.
bool reads_composed(const JsonObject& root);
// The same: that the split is byte-level, and the merges.
ByteLevelOptions read_byte_level(const JsonObject& root);

}  // namespace stof
