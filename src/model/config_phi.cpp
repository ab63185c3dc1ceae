// SPDX-License-Identifier: Apache-2.0
#include "src/model/config_phi.h"

#include <fmt/format.h>

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

}  // namespace

// Transformers has no other angles of Phi-3 than those that are not scaled and those that differ by the length of the
// text (longrope), of which "su" and "yarn" are older names.
RotaryLayer read_phi_rotary(const JsonObject& object, const ModelConfig& config) {
  const std::optional<JsonObject> said = rope_parameters_of(object);
  const JsonObject& parameters = said ? *said : object;
  RotaryLayer layer;
  for (const JsonObject* where : {&object, &parameters})
    if (where->has("rope_theta")) layer.theta = where->positive_number("rope_theta");
  layer.pairs = read_pairs(object, parameters, config.head_dim);
  if (!said) return layer;
  const std::string_view key = key_of_rope_type(parameters);
  if (parameters.string(key, "default") != "default") refuse(parameters, key, "\"default\" of phi3");
  parameters.allow_only({"rope_type", "type", "rope_theta", kFactor});
  return layer;
}

}  // namespace stof
