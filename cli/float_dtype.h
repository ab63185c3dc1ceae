// SPDX-License-Identifier: Apache-2.0
// `--dtype`: what numbers are computed from.
#pragma once
#include <string>

#include "src/backend/contract.h"
#include "src/base/error.h"
#include "stof/device.h"
#include "stof/tensor.h"

namespace stof::cli {

inline DType parse_float_dtype(const std::string& text) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    if (text == name_of(dtype)) return dtype;
  fail(ErrorKind::invalid_argument, "--dtype {}; accepted: f32, f16, bf16", text);
}

// Before minutes of measuring: as the device would say at its first matmul.
inline void check_matmuls_in(DType dtype, const Device& device) {
  if (device.backend == &cpu_backend && dtype == DType::f16)
    fail(ErrorKind::unsupported, "no matmul in {} on the CPU; accepted: f32, bf16", name_of(dtype));
}

}  // namespace stof::cli
