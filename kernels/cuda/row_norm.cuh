// SPDX-License-Identifier: Apache-2.0
// Norms of rows in 16 bits. Warps stay for as many rows as there are: scale and shift are read once, into registers and
// while the kernel in front ends, and the next row is on its way while one is normalised. sum_norm_kernel, a warp a
// row, reads four times the row's bytes of scale and shift for each; rms_norm_kernel, a CTA a row, waits for its sum
// alone.
#pragma once
#include "kernels/cuda/storage.cuh"
#include "kernels/cuda/warp_sum.cuh"
#include "kernels/shared/rows.h"

namespace stof::cuda {

// A lane has a vector of 8 columns in each 256 of a row, in the last of them perhaps none: needs columns above
// 256 (kVectors - 1) and up to 256 kVectors, a multiple of 8, and addresses that are multiples of 16. kRms: by the root
// mean square, without a shift.
template <class Storage, int kVectors, bool kRms>
struct RowNorm {
  static constexpr int kCount = 8;
  using Values = float[kVectors][kCount];
  const SumNormParams& p;
  int lane;
  float scale[kVectors][kCount], shift[kRms ? 1 : kVectors][kCount];

  __device__ __forceinline__ int column(int vector) const { return (vector * 32 + lane) * kCount; }
  __device__ __forceinline__ bool has(int vector) const { return vector + 1 < kVectors || column(vector) < p.columns; }

  __device__ __forceinline__ static void load_floats(const float* from, float (&to)[kCount]) {
    const float4 low = *reinterpret_cast<const float4*>(from), high = *reinterpret_cast<const float4*>(from + 4);
    to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
    to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
  }
  __device__ __forceinline__ void load_weights() {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (!has(v)) continue;
      load_floats(p.scale + column(v), scale[v]);
      if constexpr (!kRms) load_floats(p.shift + column(v), shift[v]);
    }
  }

  __device__ __forceinline__ void load(int row, uint4 (&words)[kVectors]) const {
    const auto* from = static_cast<const unsigned short*>(p.sources[0].base) + static_cast<long long>(row) * p.columns;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) words[v] = has(v) ? Vector<Storage>::read(from + column(v)) : uint4{0, 0, 0, 0};
  }

  // The sums are in the order of sum_norm_kernel, and both say how they round: the same bits.
  __device__ __forceinline__ void normalise(Values& x) const {
    float total = 0.f, squares = 0.f;
#pragma unroll
    for (int v = 0; v < kVectors; ++v)
#pragma unroll
      for (int i = 0; i < kCount; ++i) total += x[v][i];
    const float inverse_columns = 1.f / static_cast<float>(p.columns);
    const float mean = __fmul_rn(warp_sum(total), inverse_columns);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (!has(v)) continue;
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        x[v][i] -= mean;
        squares = __fmaf_rn(x[v][i], x[v][i], squares);
      }
    }
    const float factor = rsqrtf(__fmaf_rn(warp_sum(squares), inverse_columns, p.epsilon));
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (!has(v)) continue;
#pragma unroll
      for (int i = 0; i < kCount; ++i) x[v][i] = __fmaf_rn(x[v][i] * factor, scale[v][i], shift[v][i]);
    }
  }

  // As rms_norm_kernel, whose warps have 256 columns each where threads have one vector: the same bits.
  __device__ __forceinline__ void normalise_rms(Values& x) const {
    float squares = 0.f;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      float of_vector = 0.f;
#pragma unroll
      for (int i = 0; i < kCount; ++i) of_vector = __fmaf_rn(x[v][i], x[v][i], of_vector);
      squares += warp_sum(of_vector);
    }
    const float factor = rsqrtf(__fmaf_rn(squares, reciprocal_approx(static_cast<float>(p.columns)), p.epsilon));
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (!has(v)) continue;
#pragma unroll
      for (int i = 0; i < kCount; ++i) x[v][i] = x[v][i] * factor * scale[v][i];
    }
  }

  __device__ __forceinline__ void write_normed(int row, const uint4 (&words)[kVectors]) const {
    Values x;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) Vector<Storage>::unpack(words[v], x[v]);
    if constexpr (kRms) normalise_rms(x);
    else normalise(x);
    auto* to = static_cast<unsigned short*>(p.out) + static_cast<long long>(row) * p.columns;
#pragma unroll
    for (int v = 0; v < kVectors; ++v)
      if (has(v)) Vector<Storage>::store(to + column(v), x[v]);
  }
};

// Of one source that is not looked up, with a norm; out may be the source.
// Grid: {RowNormGrid::kCtas or kRmsCtas an SM, or rows / RowNormGrid::kWarps where that is less}.
template <class Storage, int kVectors, bool kRms>
__global__ void __launch_bounds__(RowNormGrid::kWarps * 32,
                                  (kRms ? RowNormGrid::kRmsCtas : RowNormGrid::kCtas)[kVectors])
    row_norm_kernel(const __grid_constant__ SumNormParams p) {
  RowNorm<Storage, kVectors, kRms> norm{p, static_cast<int>(threadIdx.x) % 32};
  norm.load_weights();
  follow_previous_grid();
  const int warps = static_cast<int>(gridDim.x) * RowNormGrid::kWarps, step = p.backwards ? -warps : warps;
  const int place = static_cast<int>(blockIdx.x) * RowNormGrid::kWarps + static_cast<int>(threadIdx.x) / 32;
  if (place >= p.rows) return;
  const auto exists = [&p](int row) { return static_cast<unsigned>(row) < static_cast<unsigned>(p.rows); };
  int row = p.backwards ? p.rows - 1 - place : place;
  uint4 words[kVectors], next[kVectors];
  norm.load(row, words);
  for (; exists(row + step); row += step) {
    norm.load(row + step, next);
    norm.write_normed(row, words);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) words[v] = next[v];
  }
  norm.write_normed(row, words);
}

}  // namespace stof::cuda
