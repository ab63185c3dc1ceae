// SPDX-License-Identifier: Apache-2.0
// What config.json of Phi-3 says of angles.
#pragma once
#include "src/model/config.h"
#include "src/model/json.h"

namespace stof {

// Once heads are known. Throws bad_file, unsupported.
RotaryLayer read_phi_rotary(const JsonObject& object, const ModelConfig& config);

}  // namespace stof
