// SPDX-License-Identifier: Apache-2.0
#include "src/model/config_modernbert.h"

#include <limits>

#include "src/base/error.h"
#include "src/model/config_rotary.h"

namespace stof {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

struct Thetas {
  double global, local;
};

double read_theta(const JsonObject& parameters, std::string_view layers, double otherwise) {
  if (!is_said(parameters, layers)) return otherwise;
  const JsonObject object = parameters.object(layers);
  if (const std::string type = object.string("rope_type", "default"); type != "default")
    fail(ErrorKind::unsupported, "{}: 'rope_type' is \"{}\"; accepted: \"default\"", object.where(), type);
  object.allow_only({"rope_type", "rope_theta"});
  return object.positive_number("rope_theta", otherwise);
}

Thetas read_thetas(const JsonObject& object) {
  if (is_said(object, "rope_scaling"))
    fail(ErrorKind::unsupported, "{}: 'rope_scaling' is {}; accepted: null", object.where(),
         excerpt(object.at("rope_scaling")));
  Thetas thetas{.global = 160'000, .local = 10'000};
  if (is_said(object, "global_rope_theta")) thetas.global = object.positive_number("global_rope_theta");
  if (is_said(object, "local_rope_theta")) thetas.local = object.positive_number("local_rope_theta");
  else if (object.has("local_rope_theta")) thetas.local = thetas.global;  // null: as the others
  if (!is_said(object, "rope_parameters")) return thetas;
  const JsonObject parameters = object.object("rope_parameters");
  parameters.allow_only({"full_attention", "sliding_attention"});
  return {.global = read_theta(parameters, "full_attention", thetas.global),
          .local = read_theta(parameters, "sliding_attention", thetas.local)};
}

// Of each layer, whether it sees everything.
std::vector<bool> read_layers(const JsonObject& object, std::int64_t layers) {
  if (std::optional<std::vector<bool>> said = read_layer_types(object, layers)) return *std::move(said);
  const std::int64_t every = object.integer("global_attn_every_n_layers", 1, kMost, 3);
  std::vector<bool> global;
  for (std::int64_t layer = 0; layer < layers; ++layer) global.push_back(layer % every == 0);
  return global;
}

}  // namespace

void read_modernbert(const JsonObject& object, ModelConfig& config) {
  check_layers_and_positions(object, config);
  config.norm_epsilon = object.positive_number("norm_eps", 1e-5);
  config.norm_bias = object.boolean("norm_bias", false);
  config.attention_bias = object.boolean("attention_bias", false);
  config.mlp_bias = object.boolean("mlp_bias", false);
  const std::int64_t reach = object.integer("local_attention", 0, kMost, 128) / 2;
  if (is_said(object, "sliding_window") && object.integer("sliding_window", 0, kMost) != reach)
    object.refuse("sliding_window", fmt::format("half of local_attention, {}", reach));
  const Thetas thetas = read_thetas(object);
  for (const bool global : read_layers(object, config.layers))
    config.rotary.push_back(global ? RotaryLayer{.reach = {}, .theta = thetas.global}
                                   : RotaryLayer{.reach = reach, .theta = thetas.local});
}

}  // namespace stof
