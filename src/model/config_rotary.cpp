// SPDX-License-Identifier: Apache-2.0
#include "src/model/config_rotary.h"

#include <fmt/ranges.h>

#include <cmath>
#include <limits>

#include "src/backend/contract.h"
#include "src/base/error.h"
#include "src/base/hash.h"

namespace stof {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMostLayers = 10'000;      // each is described; no checkpoint has a hundredth of it
constexpr std::int64_t kMostPositions = 1 << 20;  // each has its angles in memory

double factor_of(const JsonObject& parameters) {
  const double factor = parameters.positive_number("factor");
  if (factor < 1) parameters.refuse("factor", "a number of at least 1");
  return factor;
}

double trained_positions(const JsonObject* around, const JsonObject& parameters, const ModelConfig& config) {
  constexpr std::string_view kKey = "original_max_position_embeddings";
  for (const JsonObject* said : {around, &parameters})  // in this order, as transformers has it
    if (said != nullptr && is_said(*said, kKey)) return static_cast<double>(said->integer(kKey, 1, kMost));
  return static_cast<double>(config.max_positions);
}

RotaryScaling read_llama3(const JsonObject* around, const JsonObject& parameters, const ModelConfig& config) {
  parameters.allow_only({"rope_type", "type", "rope_theta", "partial_rotary_factor", "factor", "low_freq_factor",
                         "high_freq_factor", "original_max_position_embeddings"});
  const RotaryScaling scaling{.kind = RotaryScaling::Kind::llama3,
                              .factor = factor_of(parameters),
                              .trained_positions = trained_positions(around, parameters, config),
                              .few = parameters.positive_number("low_freq_factor"),
                              .many = parameters.positive_number("high_freq_factor")};
  if (scaling.many <= scaling.few)
    parameters.refuse("high_freq_factor", fmt::format("more than low_freq_factor, {}", scaling.few));
  return scaling;
}

// What the paper suggests where the file says nothing.
double suggested_amplitude(double factor) { return factor <= 1 ? 1 : 0.1 * std::log(factor) + 1; }

RotaryScaling read_yarn(const JsonObject* around, const JsonObject& parameters, const ModelConfig& config) {
  parameters.allow_only({"rope_type", "type", "rope_theta", "partial_rotary_factor", "factor", "attention_factor",
                         "beta_fast", "beta_slow", "truncate", "original_max_position_embeddings"});
  const double factor = factor_of(parameters);
  const auto number = [&](std::string_view key, double otherwise) {
    return is_said(parameters, key) ? parameters.positive_number(key) : otherwise;
  };
  const RotaryScaling scaling{.kind = RotaryScaling::Kind::yarn,
                              .factor = factor,
                              .trained_positions = trained_positions(around, parameters, config),
                              .few = number("beta_slow", 1),
                              .many = number("beta_fast", 32),
                              .amplitude = number("attention_factor", suggested_amplitude(factor)),
                              .whole_pairs = parameters.boolean("truncate", true)};
  if (scaling.many < scaling.few) parameters.refuse("beta_fast", fmt::format("at least beta_slow, {}", scaling.few));
  constexpr double kMostAmplitude = 1000;  // scores grow by its square
  if (scaling.amplitude > kMostAmplitude) parameters.refuse("attention_factor", "at most 1000");
  return scaling;
}

// All columns of a head are turned.
void check_whole_heads(const JsonObject& parameters) {
  constexpr std::string_view kKey = "partial_rotary_factor";
  if (is_said(parameters, kKey) && parameters.positive_number(kKey) != 1) refuse(parameters, kKey, "1");
}

RotaryScaling read_scaling(const JsonObject* around, const JsonObject& parameters, const ModelConfig& config) {
  const std::string_view key = key_of_rope_type(parameters);
  const std::string type = parameters.string(key, "default");
  check_whole_heads(parameters);
  if (type == "llama3") return read_llama3(around, parameters, config);
  if (type == "yarn") return read_yarn(around, parameters, config);
  if (type == "linear") {
    parameters.allow_only({"rope_type", "type", "rope_theta", "partial_rotary_factor", "factor"});
    return {.kind = RotaryScaling::Kind::linear, .factor = factor_of(parameters)};
  }
  if (type != "default")
    fail(ErrorKind::unsupported, "{}: '{}' is \"{}\"; accepted: \"default\", \"linear\", \"llama3\", \"yarn\"",
         parameters.where(), key, type);
  parameters.allow_only({"rope_type", "type", "rope_theta", "partial_rotary_factor"});
  return {};
}

}  // namespace

std::string text_of(const RotaryScaling& scaling) {
  const auto& s = scaling;
  switch (s.kind) {
    case RotaryScaling::Kind::none: return {};
    case RotaryScaling::Kind::linear: return fmt::format("linear {}", s.factor);
    case RotaryScaling::Kind::llama3:
      return fmt::format("llama3 {} {} {} {}", s.factor, s.trained_positions, s.few, s.many);
    case RotaryScaling::Kind::yarn:
      return fmt::format("yarn {} {} {} {} {} {}", s.factor, s.trained_positions, s.few, s.many, s.amplitude,
                         s.whole_pairs ? "pairs" : "between");
    case RotaryScaling::Kind::longrope:
      return fmt::format(
          "longrope {} {} factors {}", s.trained_positions, s.amplitude,
          fingerprint_of(fmt::format("{} {}", fmt::join(s.short_factors, " "), fmt::join(s.long_factors, " "))).hex());
  }
  return {};
}

std::string_view key_of_rope_type(const JsonObject& parameters) {
  return parameters.has("rope_type") || !parameters.has("type") ? "rope_type" : "type";
}

void check_layers_and_positions(const JsonObject& object, const ModelConfig& config, std::string_view layers,
                                std::string_view positions) {
  if (config.layers > kMostLayers) object.refuse(layers, fmt::format("0 to {}", kMostLayers));
  if (config.max_positions > kMostPositions)
    object.refuse(positions, fmt::format("{} to {}", is_decoder(config.family) ? 1 : 2, kMostPositions));
}

void read_heads(const JsonObject& object, const HeadDefaults& unsaid, ModelConfig& config) {
  config.kv_heads = config.heads;
  if (is_said(object, "num_key_value_heads")) config.kv_heads = object.integer("num_key_value_heads", 1, kMost);
  else if (!object.has("num_key_value_heads") && unsaid.kv_heads) config.kv_heads = *unsaid.kv_heads;
  if (config.heads % config.kv_heads != 0) {
    const std::string accepted = fmt::format("a divisor of num_attention_heads, {}", config.heads);
    if (is_said(object, "num_key_value_heads")) object.refuse("num_key_value_heads", accepted);
    fail(ErrorKind::bad_file, "{}: 'num_key_value_heads' is not said, which is {} then; accepted: {}", object.where(),
         config.kv_heads, accepted);
  }
  if (is_said(object, "head_dim")) {
    config.head_dim = object.integer("head_dim", 1, kMost);
  } else if (unsaid.head_dim) {
    config.head_dim = *unsaid.head_dim;
  } else {
    if (config.hidden_size % config.heads != 0)
      object.refuse("hidden_size", fmt::format("a multiple of num_attention_heads, {}", config.heads));
    config.head_dim = config.hidden_size / config.heads;
  }
  if (config.head_dim > kMaxHeadDim || config.head_dim % 2 != 0)
    fail(ErrorKind::unsupported, "{}: heads of {} columns; accepted: an even number up to {}", object.where(),
         config.head_dim, kMaxHeadDim);
}

std::optional<std::vector<bool>> read_layer_types(const JsonObject& object, std::int64_t layers) {
  if (!is_said(object, "layer_types")) return std::nullopt;
  const nlohmann::json& types = object.at("layer_types");
  if (!types.is_array() || static_cast<std::int64_t>(types.size()) != layers)
    object.refuse("layer_types", fmt::format("an array of num_hidden_layers strings, {}", layers));
  std::vector<bool> sees_all;
  for (const nlohmann::json& type : types) {
    sees_all.push_back(type == "full_attention");
    if (!sees_all.back() && type != "sliding_attention")
      fail(ErrorKind::unsupported, "{}: 'layer_types' has {}; accepted: \"full_attention\", \"sliding_attention\"",
           object.where(), excerpt(type));
  }
  return sees_all;
}

std::optional<JsonObject> rope_parameters_of(const JsonObject& object) {
  for (const std::string_view key : {"rope_scaling", "rope_parameters"})  // the first that says anything, alone
    if (is_said(object, key) && !object.at(key).empty()) return object.object(key);
  return std::nullopt;
}

RotaryLayer read_rotary(const JsonObject& object, const ModelConfig& config, double usual_theta) {
  check_whole_heads(object);
  const double theta = object.has("rope_theta") ? object.positive_number("rope_theta") : usual_theta;
  if (const auto parameters = rope_parameters_of(object)) return read_angles(*parameters, theta, config, &object);
  return {.reach = {}, .theta = theta, .scaling = {}};
}

RotaryLayer read_angles(const JsonObject& parameters, double theta, const ModelConfig& config,
                        const JsonObject* around) {
  RotaryLayer layer{.reach = {}, .theta = theta, .scaling = {}};
  if (parameters.has("rope_theta")) layer.theta = parameters.positive_number("rope_theta");
  layer.scaling = read_scaling(around, parameters, config);
  if (layer.scaling.kind == RotaryScaling::Kind::yarn && layer.theta <= 1)
    fail(ErrorKind::bad_file, "{}: 'rope_theta' is {}; accepted with yarn: more than 1",
         (around != nullptr ? *around : parameters).where(), layer.theta);
  return layer;
}

}  // namespace stof
