// SPDX-License-Identifier: Apache-2.0
// Matmul with packed weights: none on CUDA, where only attention runs.
#pragma once
#include "src/backend/operations.h"
#include "src/base/error.h"

namespace stof::cuda {

inline constexpr MatmulOperations matmul_operations{
    .pack = [](const LinearSpec&) -> PackedLinear {
      fail(ErrorKind::unsupported, "matmul does not run on CUDA; models run on the device 'cpu'");
    },
    .run = [](const PackedLinear&, const LinearCall&) {}};

}  // namespace stof::cuda
