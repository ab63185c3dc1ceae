// SPDX-License-Identifier: Apache-2.0
// What the GEMM kernel reads: maps of its matrices, and the vectors and moments that its epilogue uses.
#pragma once
#include "kernels/shared/activation.h"
#include "kernels/shared/cache_use.h"
#include "kernels/shared/device_layout.h"

namespace stof::cuda {

// Of matrices, columns first. Boxes are 64 columns wide; those of w have as many rows as a tile has columns, the others
// as many as it has rows.
struct GemmMaps {
  TensorMap x, w, out, residual;
};
// For tiles whose columns are no multiple of 64: also boxes of 32, 16 and 8 columns.
struct GemmNarrowMaps : GemmMaps {
  TensorMap narrow_out[3], narrow_residual[3];
};

// Moments are [rows][pieces][2]: see kMomentColumns of src/backend/operations.h, which this equals. Vectors are fp32
// with kGemmPadding more behind the last column: a tile is read whole.
constexpr int kMomentColumns = 64;
constexpr int kGemmPadding = 256;
// Tiles of a row that follow each other in the order of tiles.
constexpr int kGemmSection = 16;
struct GemmParams {
  int rows, columns, inner;
  int tile_base, tile_sign;  // 0 and 1; or the last tile and -1, from the last to the first
  int out_use;               // CacheUseCode
  // Lines of 128 bytes of next_weight, and how many of them a CTA asks the L2 for; 0: nobody does.
  int next_lines, next_lines_each;
  // Of the tiles of a section's row, and of the last section's: inverse_of in src/backend/cuda/matmul/gemm.h.
  unsigned section_inverse, last_inverse;
  const float* bias;        // with a norm of x: the bias and the product of its shift with the weight
  const float* column_sum;  // of the weight, scaled by the norm of x, as it is stored
  const float* scale;       // of the norm of the residual
  const float* shift;
  const float* x_moments;
  const float* residual_moments;
  float* moments;
  float x_epsilon, residual_epsilon;
  // The first `turned` columns are heads of head_mask + 1, a power of two: of pairs that the row's position turns.
  const float* angles;   // [positions][head_mask + 1]: cosine and sine of each pair
  const int* positions;  // [rows]
  int turned, head_mask;
  // Read and written without maps where CTAs share the inner dimension.
  const void* residual;
  void* out;
  const void* next_weight;  // of the matmul after this one
};

// Of the kernel that needs no copy engine: addresses in place of maps.
struct MmaGemmParams : GemmParams {
  const void* x;       // [rows, inner]
  const void* weight;  // [columns, inner]
};

}  // namespace stof::cuda
