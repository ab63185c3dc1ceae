// SPDX-License-Identifier: Apache-2.0
// What cuBLASLt does to a product before it writes it, and what is left for a row kernel after it.
#pragma once
#include "src/backend/cuda/driver/blas_types.h"
#include "src/backend/operations.h"

namespace stof::cuda {

struct Epilogue {
  BlasEpilogue inside = BlasEpilogue::none;
  bool bias_after = false;
  Activation activation_after = Activation::none;
  bool anything_after() const { return bias_after || activation_after != Activation::none; }
  friend bool operator==(const Epilogue&, const Epilogue&) = default;
};

// cuBLASLt's gelu is the one by tanh, to the precision of 16 bits: the one by the error function, and gelu_tanh in f32,
// are applied afterwards, with the bias that comes before them.
Epilogue epilogue_of(Activation activation, bool bias, DType dtype);

// The same with nothing inside.
Epilogue plain_epilogue(Activation activation, bool bias);

inline bool takes_bias(BlasEpilogue epilogue) {
  return epilogue == BlasEpilogue::bias || epilogue == BlasEpilogue::relu_bias || epilogue == BlasEpilogue::gelu_bias;
}

}  // namespace stof::cuda
