// SPDX-License-Identifier: Apache-2.0
// `--dtype`: what numbers are computed from. Whether a device can is its own answer.
#pragma once
#include <string>

#include "src/base/error.h"
#include "stof/tensor.h"

namespace stof::cli {

inline DType parse_float_dtype(const std::string& text) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    if (text == name_of(dtype)) return dtype;
  fail(ErrorKind::invalid_argument, "--dtype {}; accepted: f32, f16, bf16", text);
}

}  // namespace stof::cli
