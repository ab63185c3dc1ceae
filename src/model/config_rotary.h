// SPDX-License-Identifier: Apache-2.0
// What config.json of models with RoPE says in the same words: limits, heads, which layers see how far, how angles are
// scaled.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "src/model/config.h"
#include "src/model/json.h"

namespace stof {

// Throws bad_file where layers or positions, which have these names, are more than memory is for.
void check_layers_and_positions(const JsonObject& object, const ModelConfig& config,
                                std::string_view layers = "num_hidden_layers",
                                std::string_view positions = "max_position_embeddings");

// What a kind of model has where num_key_value_heads and head_dim are not said; nothing: as many as heads, and what
// hidden_size leaves for each of them.
struct HeadDefaults {
  std::optional<std::int64_t> kv_heads, head_dim;
};
// kv_heads and head_dim. Throws bad_file, unsupported.
void read_heads(const JsonObject& object, const HeadDefaults& unsaid, ModelConfig& config);

// `layer_types`: of each layer whether it sees everything; nothing where the file does not say.
std::optional<std::vector<bool>> read_layer_types(const JsonObject& object, std::int64_t layers);

// theta and scaling for all layers, in the words of transformers 4 (rope_theta, rope_scaling) and of 5
// (rope_parameters). Throws bad_file, unsupported.
RotaryLayer read_rotary(const JsonObject& object, const ModelConfig& config, double usual_theta = 1e4);

// Where read_rotary finds what it says of scaling, and the key of the type there, whether it is said or not.
std::optional<JsonObject> rope_parameters_of(const JsonObject& object);
std::string_view key_of_rope_type(const JsonObject& parameters);

// What one object says, `theta` where it does not say it. `around`, where there is one, comes first for how long the
// texts of a training were.
RotaryLayer read_angles(const JsonObject& parameters, double theta, const ModelConfig& config,
                        const JsonObject* around = nullptr);

}  // namespace stof
