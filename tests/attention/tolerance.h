// SPDX-License-Identifier: Apache-2.0
// How far attention may be from its definition, by storage dtype: relative Frobenius error of all rows together, and
// of the worst row ten times that. The logarithm is fp32 whatever the storage.
#pragma once
#include "stof/tensor.h"

namespace stof {

struct Tolerance {
  double all, worst_row, lse;
};

constexpr Tolerance tolerance(DType dtype) {
  const double all = dtype == DType::f32 ? 1e-5 : dtype == DType::f16 ? 2e-3 : 1e-2;
  return {.all = all, .worst_row = 10 * all, .lse = 2e-5};
}

}  // namespace stof
