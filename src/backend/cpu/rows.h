// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "src/backend/operations.h"

namespace stof::cpu {

extern const RowOperations row_operations;

}  // namespace stof::cpu
