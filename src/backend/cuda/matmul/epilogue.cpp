// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/matmul/epilogue.h"

namespace stof::cuda {

Epilogue plain_epilogue(Activation activation, bool bias) {
  return {.inside = BlasEpilogue::none, .bias_after = bias, .activation_after = activation};
}

Epilogue epilogue_of(Activation activation, bool bias, DType dtype) {
  switch (activation) {
    case Activation::none: return {.inside = bias ? BlasEpilogue::bias : BlasEpilogue::none};
    case Activation::relu: return {.inside = bias ? BlasEpilogue::relu_bias : BlasEpilogue::relu};
    case Activation::gelu_tanh:
      if (dtype == DType::f32) return plain_epilogue(activation, bias);
      return {.inside = bias ? BlasEpilogue::gelu_bias : BlasEpilogue::gelu};
    case Activation::gelu:
    case Activation::silu:
    case Activation::tanh: return plain_epilogue(activation, bias);
  }
  return plain_epilogue(activation, bias);
}

}  // namespace stof::cuda
