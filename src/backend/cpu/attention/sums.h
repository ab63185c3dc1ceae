// SPDX-License-Identifier: Apache-2.0
// Two results of attention for the same rows, added up.
#pragma once
#include "src/backend/contract.h"

namespace stof::cpu {

extern const SumOperations sum_operations;

}  // namespace stof::cpu
