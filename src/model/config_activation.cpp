// SPDX-License-Identifier: Apache-2.0
#include "src/model/config_activation.h"

#include <array>

namespace stof {
namespace {

struct Activation {
  std::string_view in_file, ours;
};
constexpr std::array<Activation, 6> kActivations{{
    {"gelu", "gelu"},
    {"gelu_new", "gelu_new"},
    {"gelu_pytorch_tanh", "gelu_new"},  // the same formula
    {"relu", "relu"},
    {"silu", "silu"},
    {"swish", "silu"},  // its other name
}};

}  // namespace

std::string usual_activation_name(const JsonObject& object, std::string_view key, std::string_view name) {
  for (const Activation& known : kActivations)
    if (name == known.in_file) return std::string(known.ours);
  refuse(object, key, "gelu, gelu_new, gelu_pytorch_tanh, relu, silu, swish");
}

std::string read_activation(const JsonObject& object, std::string_view key, std::string_view otherwise) {
  return usual_activation_name(object, key, object.string(key, otherwise));
}

}  // namespace stof
