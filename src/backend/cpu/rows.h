// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/cpu/rows.h"
#include "src/backend/operations.h"

namespace stof::cpu {

extern const RowOperations row_operations;

// Of f32, f16 or bf16.
RowType row_type(DType dtype);

}  // namespace stof::cpu
