// SPDX-License-Identifier: Apache-2.0
// What the CUDA kernels on rows of activations read. Rows are contiguous, `columns` elements each.
#pragma once
#include "kernels/shared/activation.h"

namespace stof::cuda {

// Row i of a source is row indices[i] of its table, or row i.
struct RowsView {
  const void* base;
  const int* indices;  // or null
};

// out = sum of the sources, normalised when there is a scale.
struct SumNormParams {
  static constexpr int kMostSources = 4;
  static constexpr int kMostInWarp = 1024;  // columns of a row that a warp holds
  RowsView sources[kMostSources];
  void* out;
  const float *scale, *shift;  // [columns] each, or null
  float epsilon;
  int count;  // of sources
  int columns;
  int rows;
  int backwards = 0;  // rows from the last to the first; only row_norm_kernel asks
};

// Of sum_norm_kernel, a warp a row, and of wide_sum_norm_kernel, a CTA a row.
struct SumNormGrid {
  static constexpr int kWarps = 4, kWideThreads = 256;
};

// Of row_norm_kernel: CTAs of kWarps warps, as many an SM, by the vectors of a lane, as took least on an H200 for 4096
// rows and more of 384, 768 and 1024 columns that came from memory (bench/results/h200-norms.json: rotating). Rows of
// one vector were not measured: as for two.
struct RowNormGrid {
  static constexpr int kWarps = 4, kMostVectors = 4;
  static constexpr int kVectorColumns = 256;  // of a warp's vectors, in 16 bits
  static constexpr int kCtas[kMostVectors + 1] = {0, 4, 4, 4, 3};
  static_assert(kVectorColumns * kMostVectors == SumNormParams::kMostInWarp,
                "every row that a warp holds has its count");
};

// out = activation(x + y), y being rows, one row for all (a bias, in fp32), or nothing.
struct AddParams {
  const void* x;
  const void* y;      // or null
  const float* bias;  // or null
  void* out;
  int activation;  // ActivationCode
  int columns;
  int rows;
};
struct AddGrid {
  static constexpr int kThreads = 128;
  static constexpr int kRows = 4;  // of a CTA where rows come as vectors: what a thread keeps in flight
};

// The halves (a, b) of the first `heads` heads of row i become (a cos - b sin, b cos + a sin), by the angles of
// positions[i]; what follows them is copied where out is not x.
struct RotateParams {
  const void* x;
  void* out;
  const float* angles;   // [positions][2][half]: cosines, sines
  const int* positions;  // [rows]
  int heads, half;
  int columns;
  int rows;
};

// Of rotate_kernel and gate_kernel.
struct HalvesGrid {
  static constexpr int kThreads = 256;
};

// out = activation(a) * b, [a, b] being a row of x.
struct GateParams {
  const void* x;
  void* out;
  int activation;  // ActivationCode
  int columns;     // of out
  int rows;
};

// One vector a text from the rows [starts[i], starts[i] + lengths[i]) of text i; zeros for a text without rows.
struct PoolParams {
  enum Kind { kFirst, kLast, kMean, kMax };
  const void* rows;
  const int *starts, *lengths;
  float* out;  // [texts, columns]
  int kind;
  int columns;
};
struct PoolGrid {
  static constexpr int kThreads = 256;
  static constexpr int kColumns = 64;  // of a CTA
};

// Divides each row by its length; a row of zeros stays.
struct NormalizeParams {
  float* rows;
  int columns;
};

}  // namespace stof::cuda
