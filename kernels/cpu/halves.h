// SPDX-License-Identifier: Apache-2.0
// Operations on the two halves of a head or of a row, of f32, f16 or bf16 with fp32 arithmetic.
#pragma once
#include "kernels/cpu/linear.h"
#include "kernels/cpu/rows.h"

namespace stof::cpu {

// The halves (a, b) of each of `heads` heads in a row become (a cos - b sin, b cos + a sin); `rest` columns behind them
// are copied. Where there are scales, a head is first divided by its root mean square and multiplied by that of q,
// which the first `q_heads` are of, or of k. Where there is a row to keep, heads from `first_kept` on and the rest go
// there. out may be x.
struct RotateTask {
  const void* x;
  void* out;
  const float* angles;             // [2][head_dim / 2]: cosines, sines
  const float *q_scale, *k_scale;  // [head_dim] each, or null
  float epsilon;
  int heads, q_heads, head_dim, rest;
  RowType type;
  void* kept = nullptr;  // of the columns from the first kept head on, apart from x; or null
  int first_kept = 0;    // of the heads, or their number
};
void rotate_row(const RotateTask& task);

// out = activation(a) * b, where x is [a, b] of `columns` each. out does not overlap x.
struct GateTask {
  const void* x;
  void* out;
  LinearActivation activation;
  int columns;
  RowType type;
};
void gate_row(const GateTask& task);

}  // namespace stof::cpu
