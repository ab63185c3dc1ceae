// SPDX-License-Identifier: Apache-2.0
// What only ModernBERT's config.json says: which layers see how far, by which angles, and which vectors there are.
#pragma once
#include "src/model/config.h"
#include "src/model/json.h"

namespace stof {

// In the words of transformers 4 (global_attn_every_n_layers, global_rope_theta, local_rope_theta) and of 5
// (layer_types, rope_parameters). Throws bad_file, unsupported.
void read_modernbert(const JsonObject& object, ModelConfig& config);

}  // namespace stof
