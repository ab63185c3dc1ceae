// SPDX-License-Identifier: Apache-2.0
// An activation as kernels number it, in parameters of row kernels and in the source of matmuls.
#pragma once
#include "kernels/shared/activation.h"
#include "src/backend/operations.h"

namespace stof::cuda {

constexpr ActivationCode code_of(Activation activation) {
  switch (activation) {
    case Activation::none: return kNoActivation;
    case Activation::gelu: return kGelu;
    case Activation::gelu_tanh: return kGeluTanh;
    case Activation::silu: return kSilu;
    case Activation::relu: return kRelu;
    case Activation::tanh: return kTanh;
  }
  return kNoActivation;
}

}  // namespace stof::cuda
