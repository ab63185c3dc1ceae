// SPDX-License-Identifier: Apache-2.0
// Matmul on the CPU is oneDNN's (onednn.cpp).
#pragma once
#include "src/backend/operations.h"

namespace stof::cpu {

extern const MatmulOperations matmul_operations;

}  // namespace stof::cpu
