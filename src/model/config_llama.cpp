// SPDX-License-Identifier: Apache-2.0
#include "src/model/config_llama.h"

#include <algorithm>
#include <limits>

#include "src/base/error.h"
#include "src/model/config_phi.h"
#include "src/model/config_rotary.h"

namespace stof {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

bool is_qwen(std::string_view model_type) { return model_type == "qwen2" || model_type == "qwen3"; }

// Models that see everything, whatever layer_types says.
bool has_windows(std::string_view model_type) { return model_type != "llama" && model_type != "eurobert"; }

// What transformers takes where the file says nothing.
HeadDefaults default_heads(std::string_view model_type) {
  HeadDefaults unsaid;
  if (model_type == "mistral") unsaid.kv_heads = 8;
  if (is_qwen(model_type)) unsaid.kv_heads = 32;
  if (model_type == "qwen3") unsaid.head_dim = 128;
  return unsaid;
}

bool is_windowed(const std::optional<std::vector<bool>>& sees_all) {
  return sees_all && std::find(sees_all->begin(), sees_all->end(), false) != sees_all->end();
}

// Of each layer, whether it sees everything, where the file says so. Files of type mistral that do are Ministral's:
// transformers takes them for that, which is Mistral with a window in some layers.
std::optional<std::vector<bool>> read_kinds(const JsonObject& object, std::string_view model_type,
                                            const ModelConfig& config) {
  std::optional<std::vector<bool>> sees_all = read_layer_types(object, config.layers);
  const bool windowed = is_windowed(sees_all);
  if (windowed && !has_windows(model_type))
    fail(ErrorKind::unsupported, "{}: 'layer_types' has \"sliding_attention\"; accepted of {}: \"full_attention\"",
         object.where(), model_type);
  if (windowed && object.has("sliding_window") && !is_said(object, "sliding_window"))
    object.refuse("sliding_window", "a number where layer_types has \"sliding_attention\"");
  return sees_all;
}

// Of each layer how far back a query sees, itself not counted. Transformers counts it where models are causal, and does
// not where they see both sides.
std::vector<std::optional<std::int64_t>> read_windows(const JsonObject& object, std::string_view model_type,
                                                      const ModelConfig& config) {
  std::vector<std::optional<std::int64_t>> windows(static_cast<std::size_t>(config.layers));
  const bool phi = model_type == "phi3", qwen = is_qwen(model_type);
  if (phi && is_said(object, "layer_types")) refuse(object, "layer_types", "null, all layers of phi3 see alike");
  const std::optional<std::vector<bool>> sees_all = read_kinds(object, model_type, config);
  if (qwen && is_windowed(sees_all) && !object.boolean("use_sliding_window", false))
    fail(ErrorKind::unsupported,
         "{}: 'layer_types' has \"sliding_attention\" and 'use_sliding_window' is not true; accepted: one of both",
         object.where());
  if (!has_windows(model_type) || (qwen && !object.boolean("use_sliding_window", false))) return windows;
  std::optional<std::int64_t> window;
  const std::int64_t itself = config.causal ? 1 : 0;
  if (is_said(object, "sliding_window")) window = object.integer("sliding_window", 1, kMost) - itself;
  else if (!object.has("sliding_window") && !phi) window = 4096 - itself;  // the default of all others
  if (!window) return windows;
  const std::int64_t first = qwen ? object.integer("max_window_layers", 0, kMost, 28) : 0;
  for (std::size_t layer = 0; layer < windows.size(); ++layer)
    if (sees_all ? !(*sees_all)[layer] : static_cast<std::int64_t>(layer) >= first) windows[layer] = window;
  return windows;
}

}  // namespace

void read_llama(const JsonObject& object, std::string_view model_type, ModelConfig& config) {
  const bool as_llama = model_type == "llama" || model_type == "eurobert", phi = model_type == "phi3";
  check_layers_and_positions(object, config);
  read_heads(object, default_heads(model_type), config);
  config.norm_epsilon = object.positive_number("rms_norm_eps", phi || model_type == "eurobert" ? 1e-5 : 1e-6);
  config.tied_head = object.boolean("tie_word_embeddings", false);
  const bool biased = (as_llama || model_type == "qwen3") && object.boolean("attention_bias", false);
  config.attention_bias = biased || model_type == "qwen2";
  config.attention_out_bias = biased;
  config.mlp_bias = as_llama && object.boolean("mlp_bias", false);
  config.head_norms = model_type == "qwen3";
  config.stacked_weights = phi;
  RotaryLayer layer = phi ? read_phi_rotary(object, config) : read_rotary(object, config);
  for (const std::optional<std::int64_t> window : read_windows(object, model_type, config)) {
    layer.reach = window;
    config.rotary.push_back(layer);
  }
}

}  // namespace stof
