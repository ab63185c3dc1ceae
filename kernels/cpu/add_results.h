// SPDX-License-Identifier: Apache-2.0
// Two results of attention for one row become one.
#pragma once
#include "kernels/cpu/rows.h"

namespace stof::cpu {

// out = weight * out + other_weight * other, in fp32 arithmetic. other does not overlap out.
struct AddResultsTask {
  void* out;
  const void* other;
  float weight, other_weight;
  int columns;
  RowType type;
};
void add_result_row(const AddResultsTask& task);

}  // namespace stof::cpu
