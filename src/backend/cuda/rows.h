// SPDX-License-Identifier: Apache-2.0
// Operations on rows of activations: none on CUDA, where only attention runs.
#pragma once
#include "src/backend/operations.h"

namespace stof::cuda {

extern const RowOperations row_operations;  // each throws unsupported

}  // namespace stof::cuda
