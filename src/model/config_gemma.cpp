// SPDX-License-Identifier: Apache-2.0
#include "src/model/config_gemma.h"

#include <limits>
#include <optional>

#include "src/base/error.h"
#include "src/model/config_rotary.h"

namespace stof {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

double theta_of(const JsonObject& object, std::string_view key, double otherwise) {
  return is_said(object, key) ? object.positive_number(key) : otherwise;
}

// Of one kind of layers, in the words of transformers 5.
RotaryLayer read_kind(const JsonObject& object, std::string_view kind, double theta, const ModelConfig& config) {
  if (is_said(object, "rope_parameters")) {
    const JsonObject kinds = object.object("rope_parameters");
    kinds.allow_only({"full_attention", "sliding_attention"});
    if (is_said(kinds, kind)) return read_angles(kinds.object(kind), theta, config);
  }
  return {.reach = {}, .theta = theta, .scaling = {}};
}

// In those of transformers 4 or 5. What transformers 5 does not take from the former is refused.
RotaryLayer read_global(const JsonObject& object, const ModelConfig& config) {
  const double theta = theta_of(object, "rope_theta", 1e6);
  if (!is_said(object, "rope_scaling")) return read_kind(object, "full_attention", theta, config);
  if (is_said(object, "rope_parameters")) refuse(object, "rope_scaling", "null beside 'rope_parameters'");
  const JsonObject parameters = object.object("rope_scaling");
  if (!parameters.has("rope_type") && parameters.has("type")) refuse(parameters, "type", "'rope_type' in its place");
  return read_angles(parameters, theta, config);
}

// How many keys before a query it sees besides itself, or where it sees both sides to each of them.
std::int64_t read_reach(const JsonObject& object, bool both_sides, bool causal) {
  const std::int64_t window = object.integer("sliding_window", 1, kMost, 4096);
  if (both_sides) return window / 2 + (causal ? 0 : 1);  // as transformers joins the two masks that it makes then
  return causal ? window - 1 : window;
}

// Of each layer, whether it sees everything: as listed, else each one in so many.
std::vector<bool> read_layers(const JsonObject& object, std::int64_t layers, std::int64_t every) {
  if (std::optional<std::vector<bool>> said = read_layer_types(object, layers)) return *std::move(said);
  std::vector<bool> global;
  for (std::int64_t layer = 1; layer <= layers; ++layer) global.push_back(layer % every == 0);
  return global;
}

// Of scores, where there is one.
std::optional<double> read_cap(const JsonObject& object, std::string_view key, std::optional<double> otherwise) {
  if (!object.has(key)) return otherwise;
  if (!is_said(object, key)) return std::nullopt;
  const double cap = object.positive_number(key);
  if (cap < 1e-18 || cap > 1e18) object.refuse(key, "null, or a number from 1e-18 to 1e18");  // as attention takes it
  return cap;
}

void read_gemma2(const JsonObject& object, ModelConfig& config) {
  constexpr std::string_view kBothSides = "use_bidirectional_attention";
  if (object.optional_boolean(kBothSides).value_or(false)) refuse(object, kBothSides, "false of gemma2");
  config.score_cap = read_cap(object, "attn_logit_softcapping", 50);
  config.logit_cap = read_cap(object, "final_logit_softcapping", 30);
  const RotaryLayer global = read_rotary(object, config);
  RotaryLayer local = global;
  local.reach = read_reach(object, false, config.causal);
  for (const bool sees_all : read_layers(object, config.layers, 2)) config.rotary.push_back(sees_all ? global : local);
}

void read_gemma3(const JsonObject& object, ModelConfig& config) {
  if (is_said(object, "attn_logit_softcapping")) refuse(object, "attn_logit_softcapping", "null");
  config.logit_cap = read_cap(object, "final_logit_softcapping", {});
  config.head_norms = true;
  const bool both_sides = object.optional_boolean("use_bidirectional_attention").value_or(false);
  RotaryLayer local = read_kind(object, "sliding_attention", theta_of(object, "rope_local_base_freq", 1e4), config);
  local.reach = read_reach(object, both_sides, config.causal);
  const RotaryLayer global = read_global(object, config);
  const std::int64_t every = object.integer("sliding_window_pattern", 1, kMost, 6);
  for (const bool sees_all : read_layers(object, config.layers, every))
    config.rotary.push_back(sees_all ? global : local);
  config.causal = config.causal && !both_sides;
}

}  // namespace

void read_gemma(const JsonObject& object, std::string_view model_type, ModelConfig& config) {
  check_layers_and_positions(object, config);
  read_heads(object, {.kv_heads = 4, .head_dim = 256}, config);
  config.norm_epsilon = object.positive_number("rms_norm_eps", 1e-6);
  config.tied_head = object.boolean("tie_word_embeddings", true);
  config.attention_bias = config.attention_out_bias = object.boolean("attention_bias", false);
  config.mlp_bias = false;
  config.post_norms = true;
  config.score_divisor = object.positive_number("query_pre_attn_scalar", 256);
  if (config.score_divisor < 1e-30 || config.score_divisor > 1e30)  // attention takes scales of 1e-18 to 1e18
    object.refuse("query_pre_attn_scalar", "a number from 1e-30 to 1e30");
  if (model_type == "gemma2") read_gemma2(object, config);
  else read_gemma3(object, config);
}

}  // namespace stof
