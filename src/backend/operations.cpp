// SPDX-License-Identifier: Apache-2.0
#include "src/backend/operations.h"

namespace stof {

std::string_view name_of(Activation activation) noexcept {
  switch (activation) {
    case Activation::none: return "none";
    case Activation::gelu: return "gelu";
    case Activation::gelu_tanh: return "gelu_tanh";
    case Activation::silu: return "silu";
    case Activation::relu: return "relu";
    case Activation::tanh: return "tanh";
  }
  return "none";
}

}  // namespace stof
