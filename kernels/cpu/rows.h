// SPDX-License-Identifier: Apache-2.0
// Operations on one row at a time, of f32, f16 or bf16 activations with fp32 arithmetic.
#pragma once
#include <cstdint>

namespace stof::cpu {

enum class RowType : std::uint8_t { f32, f16, bf16 };

struct RowNorm {
  const float* scale;  // [columns]
  const float* shift;  // [columns]; null: by the root mean square, around 0
  float epsilon;
};

struct RowSource {
  const void* row;
  RowType type;
};

// out = sum of the sources, normalised when norm is not null: mean and variance over the columns, in two passes.
// `scratch` holds `columns` floats. out may be one of the sources.
struct SumTask {
  const RowSource* sources;
  int count;
  const RowNorm* norm;
  int columns;
  void* out;
  RowType type;
  float* scratch;
};
void sum_rows(const SumTask& task);

// row = weight * row + other_weight * other. other does not overlap row.
struct BlendTask {
  void* row;
  const void* other;
  float weight, other_weight;
  int columns;
  RowType type;
};
void blend_row(const BlendTask& task);

}  // namespace stof::cpu
