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

// out = sum of the sources, normalised when there is a scale: by the root mean square where there is no shift.
struct SumNormParams {
  static constexpr int kMostSources = 4;
  static constexpr int kMostInWarp = 1024;  // columns of a row that a warp holds
  RowsView sources[kMostSources];
  void* out;
  const void* added;           // [rows, columns], to what is normalised: by the root mean square alone; or null
  const float *scale, *shift;  // [columns] each, or null
  float epsilon;
  int count;  // of sources
  int columns;
  int rows;
  int backwards = 0;  // rows from the last to the first; only row_norm_kernel and rms_norm_kernel ask
};

// Of sum_norm_kernel, a warp a row, and of wide_sum_norm_kernel, a CTA a row.
struct SumNormGrid {
  static constexpr int kWarps = 4, kWideThreads = 256;
};

// Of row_norm_kernel: CTAs of kWarps warps, as many an SM, by the vectors of a lane, as took least on an H200 for 4096
// rows and more of 384, 768 and 1024 columns that came from memory (bench/results/h200-norms.json: rotating). Rows of
// one vector were not measured: as for two. Norms by the root mean square have up to kMostRmsVectors, and from
// kLeastRmsRows rows on: fewer, or wider ones, take as long with a CTA each, or less; so do 512 of 1,536 columns, by 4
// % (bench/results/h200-row-warps.txt).
struct RowNormGrid {
  static constexpr int kWarps = 4, kMostVectors = 4, kMostRmsVectors = 6, kLeastRmsRows = 512;
  static constexpr int kVectorColumns = 256;  // of a warp's vectors, in 16 bits
  static constexpr int kCtas[kMostVectors + 1] = {0, 4, 4, 4, 3};
  static constexpr int kRmsCtas[kMostRmsVectors + 1] = {0, 4, 4, 4, 4, 3, 3};
#ifndef __CUDACC__  // what the host alone asks
  // Rows in 16 bits, of one source, that lie one behind the other.
  static constexpr bool takes(long long rows, long long columns, bool rms) {
    const int vectors = rms ? kMostRmsVectors : kMostVectors;
    return columns % 8 == 0 && columns <= vectors * kVectorColumns && (!rms || rows >= kLeastRmsRows);
  }
#endif
  static_assert(kVectorColumns * kMostVectors == SumNormParams::kMostInWarp,
                "every row that a warp holds has its count");
};

// CTAs of rms_norm_kernel, which has a row in registers: its threads, and the vectors of each. The first that holds a
// row takes it; few vectors a thread leave room for other rows' CTAs on an SM, so that loads of one hide sums of
// another.
struct RmsNormCta {
  int threads, vectors;
};
struct RmsNormGrid {
  static constexpr int kMostColumns = 16384, kMostSources = 2;
  // In place of the number of sources: one, and a row that is added behind the norm, for which the others would hold
  // registers that they have no use for.
  static constexpr int kAdded = 3;
  static constexpr RmsNormCta kCtas[] = {{128, 1}, {256, 1}, {256, 2}, {256, 4}, {512, 4}, {512, 8}};
  static_assert(kCtas[5].threads * kCtas[5].vectors * 4 == kMostColumns, "every such row has its CTA, in f32 too");
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
// positions[i]; what follows them is copied where it goes elsewhere than it lies. Columns from kept_from on become row
// places[i] of `kept` and not of out.
struct RotateParams {
  const void* x;
  void* out;
  const float* angles;   // [positions][2][half]: cosines, sines
  const int* positions;  // [rows]
  int heads, half;
  int columns;
  int rows;
  int kept_from;      // a multiple of 2 * half, or `columns`: none
  void* kept;         // of columns - kept_from columns, apart from x; or null
  const int* places;  // [rows], or null
};

// The same of heads that are first divided by their root mean square and multiplied by the scale of q, which the first
// q_heads are of, or of k.
struct NormedHeadsParams {
  RotateParams heads;
  const float *q_scale, *k_scale;  // [2 * half] each
  float epsilon, inverse_dim;      // 1 / (2 * half)
  int q_heads;
  int heads_of_row;  // with what follows the heads, where it is copied
  int lane_bits;     // a head's lanes: 1 << lane_bits, up to 32
};
struct NormedHeadsGrid {
  static constexpr int kThreads = 128, kMostHalf = 128;
};

// Of turn_heads_kernel: warps of a CTA, the most vectors of half a head, and groups of heads of a warp: the first, or
// the second where that leaves each SM kLeastWarps (bench/results/h200-row-warps.txt).
struct TurnedHeadsGrid {
  static constexpr int kWarps = 4, kMostOfHalf = 16, kGroups[] = {2, 6}, kLeastWarps = 16;
#ifndef __CUDACC__  // what the host alone asks
  // Heads of two halves; `vector`: of how many numbers vectors are.
  static constexpr bool takes(long long half, int vector) {
    return half > 0 && half % vector == 0 && half / vector <= kMostOfHalf;
  }
#endif
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

// Row from[i] of x, or row i, becomes row to[i] of out, or row i. Rows are cut into pieces of 1, 2, 4 or 16 bytes,
// which divide addresses and strides, too.
struct CopyRowsParams {
  const char* x;
  char* out;
  const int *from, *to;  // [rows] each, or null
  long long x_stride, out_stride;
  unsigned of_row;  // pieces
  unsigned pieces;  // of all rows; at least 1, below 2^31
};
// A thread has as many pieces as leave something to do for every SM, up to kPieces.
struct CopyRowsGrid {
  static constexpr int kThreads = 256, kPieces = 4;
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

// The first column of each row's highest values; -1 for a row that has NaN. Where several CTAs share a row each leaves
// what it has found in `parts`, [rows][CTAs], which the second kernel reads.
struct HighestParams {
  const void* x;
  unsigned long long* parts;
  int* out;
  int columns;  // 1 or more
};
struct MergeHighestParams {
  const unsigned long long* parts;
  int* out;
  int rows, count;  // of parts of each row
};
struct HighestGrid {
  static constexpr int kThreads = 256, kAhead = 4;
  static constexpr int kCtas = 4;        // for each SM, where rows are long enough: what hides the way to the cache
  static constexpr int kMergedRows = 4;  // of a CTA
};

// Divides each row by its length; a row of zeros stays.
struct NormalizeParams {
  float* rows;
  int columns;
};

}  // namespace stof::cuda
