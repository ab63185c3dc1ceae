// SPDX-License-Identifier: Apache-2.0
#include "src/model/config_nomic.h"

#include <array>
#include <limits>
#include <string>

#include "src/backend/contract.h"
#include "src/base/error.h"
#include "src/model/config_activation.h"
#include "src/model/config_rotary.h"

namespace stof {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

// What the first code computes otherwise where these are true.
constexpr std::array<std::string_view, 9> kNotDone{
    "causal",  "mlp_fc1_bias",  "mlp_fc2_bias",           "parallel_block", "parallel_block_tied_norm",
    "prenorm", "qkv_proj_bias", "rotary_emb_interleaved", "use_rms_norm"};
// And where these are numbers.
constexpr std::array<std::string_view, 4> kUnsaid{"moe_every_n_layers", "num_experts", "rotary_emb_scale_base",
                                                  "rotary_scaling_factor"};

void check_kind(const JsonObject& object) {
  for (const std::string_view key : kNotDone)
    if (object.optional_boolean(key).value_or(false)) refuse(object, key, "false");
  for (const std::string_view key : kUnsaid)
    if (is_said(object, key) && object.at(key) != 0) refuse(object, key, "null");
  constexpr std::string_view kTurned = "rotary_emb_fraction";
  if (is_said(object, kTurned) && object.positive_number(kTurned) != 1) refuse(object, kTurned, "1");
}

// Of the gate.
std::string read_gate(const JsonObject& object) {
  constexpr std::string_view kKey = "activation_function";
  if (!is_said(object, kKey)) return read_activation(object, "hidden_act", "silu");
  const std::string name = object.string(kKey);
  if (name == "swiglu") return "silu";
  if (name == "geglu") return "gelu";
  refuse(object, kKey, "swiglu, geglu");
}

}  // namespace

void read_nomic(const JsonObject& object, ModelConfig& config) {
  check_layers_and_positions(object, config);
  check_kind(object);
  config.activation = read_gate(object);
  config.type_vocab_size = object.integer("type_vocab_size", 0, kMost, 2);
  std::string_view epsilon = "layer_norm_epsilon";
  take_other_name(object, "layer_norm_eps", epsilon);
  config.norm_epsilon = object.positive_number(epsilon, 1e-12);
  RotaryLayer layer = read_rotary(object, config, object.positive_number("rotary_emb_base", 1000));
  read_heads(object, {}, config);
  if (config.kv_heads != config.heads || config.head_dim * config.heads != config.hidden_size)
    fail(ErrorKind::unsupported,
         "{}: {} heads of {} columns, {} of keys; accepted: as many of keys, {} columns together", object.where(),
         config.heads, config.head_dim, config.kv_heads, config.hidden_size);
  config.rotary.assign(static_cast<std::size_t>(config.layers), layer);
}

}  // namespace stof
