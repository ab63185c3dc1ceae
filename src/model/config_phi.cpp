// SPDX-License-Identifier: Apache-2.0
#include "src/model/config_phi.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "src/model/config_rotary.h"

namespace stof {
namespace {

constexpr std::string_view kFactor = "partial_rotary_factor";

// How many pairs of a head turn; nothing: all. What stands among the parameters comes before what stands around them.
// Its product with the head's columns is cut to a whole number, of which transformers takes odd ones, too, by other
// frequencies.
std::optional<std::int64_t> read_pairs(const JsonObject& around, const JsonObject& parameters, std::int64_t head_dim) {
  const JsonObject& object = is_said(parameters, kFactor) ? parameters : around;
  if (!is_said(object, kFactor)) return std::nullopt;
  const double columns = static_cast<double>(head_dim) * object.positive_number(kFactor);
  const auto turned = columns < static_cast<double>(head_dim + 1) ? static_cast<std::int64_t>(columns) : head_dim + 1;
  if (turned < 2 || turned > head_dim || turned % 2 != 0)
    refuse(object, kFactor,
           fmt::format("what makes an even number of columns, from 2 to {}, of a head's {}", head_dim, head_dim));
  return turned == head_dim ? std::nullopt : std::optional(turned / 2);
}

// Of each pair that turns, as floats, which is how they are multiplied.
std::vector<float> read_factors(const JsonObject& parameters, std::string_view key, std::int64_t pairs) {
  const nlohmann::json& said = parameters.at(key);
  const auto is_factor = [](const nlohmann::json& factor) {
    return factor.is_number() && factor > 0 && std::isnormal(factor.get<float>());
  };
  if (!said.is_array() || std::ssize(said) != pairs || !std::all_of(said.begin(), said.end(), is_factor))
    parameters.refuse(key,
                      fmt::format("an array of a number above 0 for each of {} pairs of columns that turn", pairs));
  std::vector<float> factors;
  for (const nlohmann::json& factor : said) factors.push_back(factor.get<float>());
  return factors;
}

// As the paper suggests it, where the file does not say it.
double read_amplitude(const JsonObject& parameters, const ModelConfig& config, double trained_positions) {
  constexpr std::string_view kAmplitude = "attention_factor", kLonger = "factor";
  constexpr double kMostAmplitude = 1000;  // scores grow by its square
  if (is_said(parameters, kAmplitude)) {
    const double amplitude = parameters.positive_number(kAmplitude);
    if (amplitude > kMostAmplitude) parameters.refuse(kAmplitude, "at most 1000");
    return amplitude;
  }
  const double longer = is_said(parameters, kLonger) ? parameters.positive_number(kLonger)
                                                     : static_cast<double>(config.max_positions) / trained_positions;
  return longer <= 1 ? 1 : std::sqrt(1 + std::log(longer) / std::log(trained_positions));
}

// How long the texts of the training were stands around the parameters, as transformers has it for Phi-3: what they say
// of it themselves it passes over.
RotaryScaling read_longrope(const JsonObject& around, const JsonObject& parameters, const ModelConfig& config,
                            std::int64_t pairs) {
  constexpr std::string_view kTrained = "original_max_position_embeddings";
  parameters.allow_only({"rope_type", "type", "rope_theta", kFactor, "factor", "attention_factor", "short_factor",
                         "long_factor", kTrained});
  const auto trained = static_cast<double>(around.integer(kTrained, 2, std::numeric_limits<std::int32_t>::max(), 4096));
  return {.kind = RotaryScaling::Kind::longrope,
          .trained_positions = trained,
          .amplitude = read_amplitude(parameters, config, trained),
          .short_factors = read_factors(parameters, "short_factor", pairs),
          .long_factors = read_factors(parameters, "long_factor", pairs)};
}

}  // namespace

RotaryLayer read_phi_rotary(const JsonObject& object, const ModelConfig& config) {
  const std::optional<JsonObject> said = rope_parameters_of(object);
  const JsonObject& parameters = said ? *said : object;
  RotaryLayer layer;
  for (const JsonObject* where : {&object, &parameters})
    if (where->has("rope_theta")) layer.theta = where->positive_number("rope_theta");
  layer.pairs = read_pairs(object, parameters, config.head_dim);
  if (!said) return layer;
  const std::string_view key = key_of_rope_type(parameters);
  const std::string type = parameters.string(key, "default");
  if (type == "longrope" || type == "su" || type == "yarn") {  // of which the others are older names to transformers
    layer.scaling = read_longrope(object, parameters, config, layer.pairs.value_or(config.head_dim / 2));
    return layer;
  }
  if (type != "default") refuse(parameters, key, "default, longrope, or its older names su and yarn, of phi3");
  parameters.allow_only({"rope_type", "type", "rope_theta", kFactor});
  return layer;
}

}  // namespace stof
