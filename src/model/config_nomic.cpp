// SPDX-License-Identifier: Apache-2.0
#include "src/model/config_nomic.h"

#include <array>
#include <limits>
#include <string>
#include <utility>

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

// Of the gate: as transformers says it, or in the words of the first code, or by both alike.
std::string read_gate(const JsonObject& object) {
  constexpr std::string_view kFirst = "activation_function", kUsual = "hidden_act";
  if (!is_said(object, kFirst)) return read_activation(object, kUsual, "silu");
  const std::string name = object.string(kFirst);
  if (name != "swiglu" && name != "geglu") refuse(object, kFirst, "swiglu, geglu");
  const std::string first = name == "swiglu" ? "silu" : "gelu";
  if (object.has(kUsual) && read_activation(object, kUsual, "silu") != first)
    fail(ErrorKind::bad_file, "{}: '{}' is {}, and '{}' is {}; accepted: one of them, or the same twice",
         object.where(), kFirst, excerpt(object.at(kFirst)), kUsual, excerpt(object.at(kUsual)));
  return first;
}

// By their first names, or where they are said by those of transformers.
struct Names {
  std::string_view width = "n_embd", layers = "n_layer", heads = "n_head", positions = "n_positions",
                   epsilon = "layer_norm_epsilon";
};
Names names_in(const JsonObject& object) {
  Names names;
  take_other_name(object, "hidden_size", names.width);
  take_other_name(object, "num_hidden_layers", names.layers);
  take_other_name(object, "num_attention_heads", names.heads);
  take_other_name(object, "max_position_embeddings", names.positions);
  take_other_name(object, "layer_norm_eps", names.epsilon);
  return names;
}

}  // namespace

// Where the first code finds null it takes 8/3 of the model's width, rounded up to a multiple of 256.
std::int64_t read_nomic_width(const JsonObject& object, std::string_view key, const ModelConfig& config) {
  constexpr std::string_view kFirst = "n_inner";
  constexpr std::int64_t kMultiple = 256;
  if (key != kFirst || !object.has(kFirst) || is_said(object, kFirst)) return object.integer(key, 1, kMost);
  const std::int64_t width = (8 * config.hidden_size / 3 + kMultiple - 1) / kMultiple * kMultiple;
  if (width > kMost) object.refuse(kFirst, fmt::format("an integer from 1 to {}", kMost));
  return width;
}

void read_nomic(const JsonObject& object, ModelConfig& config) {
  const Names names = names_in(object);
  check_layers_and_positions(object, config, names.layers, names.positions);
  check_kind(object);
  config.activation = read_gate(object);
  config.type_vocab_size = object.integer("type_vocab_size", 0, kMost, 2);
  config.norm_epsilon = object.positive_number(names.epsilon, 1e-12);
  const RotaryLayer layer = read_rotary(object, config, object.positive_number("rotary_emb_base", 1000));
  config.rotary.assign(static_cast<std::size_t>(config.layers), layer);
  const std::int64_t heads = config.heads, head_dim = config.hidden_size / heads;
  if (config.hidden_size % heads != 0 || head_dim % 2 != 0 || head_dim > kMaxHeadDim)
    object.refuse(names.width,
                  fmt::format("an even number up to {} for each of {}, {}", kMaxHeadDim, names.heads, heads));
  for (const auto& [key, only] : {std::pair{"head_dim", head_dim}, std::pair{"num_key_value_heads", heads}})
    if (is_said(object, key) && object.integer(key, 1, kMost) != only)
      refuse(object, key, fmt::format("{}, or null", only));
}

}  // namespace stof
