// SPDX-License-Identifier: Apache-2.0
// Sum of rows and its layer norm: embeddings, a residual and the norm after it, or a plain sum. Every byte is read and
// written once; statistics are fp32, of the values and then of their distances from the mean.
#pragma once
#include "kernels/cuda/storage.cuh"
#include "kernels/cuda/warp_sum.cuh"
#include "kernels/shared/rows.h"

namespace stof::cuda {

__device__ __forceinline__ int index_of(const RowsView& source, int row) {
  return source.indices ? source.indices[row] : row;
}
template <class Storage>
__device__ __forceinline__ const typename Storage::Stored* values_of(const RowsView& source, int index, int columns) {
  return static_cast<const typename Storage::Stored*>(source.base) + static_cast<long long>(index) * columns;
}

// A warp a row, which stays in registers: needs columns <= kMostColumns, a multiple of Vector::kCount, and addresses
// that are multiples of 16.
template <class Storage, int kSources>
struct RowSum {
  using V = Vector<Storage>;
  static constexpr int kMostColumns = SumNormParams::kMostInWarp;
  static constexpr int kVectors = kMostColumns / (32 * V::kCount);  // of a lane
  const SumNormParams& p;
  int row, lane;
  float x[kVectors][V::kCount];
  float4 scale[kVectors][V::kCount / 4], shift[kVectors][V::kCount / 4];

  __device__ __forceinline__ int column(int vector) const { return (vector * 32 + lane) * V::kCount; }

  // Nobody writes them: they need not wait for the kernel in front.
  __device__ __forceinline__ void load_weights() {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (column(v) >= p.columns) continue;
#pragma unroll
      for (int i = 0; i < V::kCount; i += 4) {
        scale[v][i / 4] = *reinterpret_cast<const float4*>(p.scale + column(v) + i);
        shift[v][i / 4] = *reinterpret_cast<const float4*>(p.shift + column(v) + i);
      }
    }
  }

  // Asked for together: first what is looked up to find the rows, then all of their values.
  __device__ __forceinline__ void load() {
    int at[kSources];
#pragma unroll
    for (int s = 0; s < kSources; ++s) at[s] = index_of(p.sources[s], row);
    typename V::Words words[kSources][kVectors];
#pragma unroll
    for (int s = 0; s < kSources; ++s) {
      const auto* from = values_of<Storage>(p.sources[s], at[s], p.columns);
#pragma unroll
      for (int v = 0; v < kVectors; ++v)
        words[s][v] = column(v) < p.columns ? V::read(from + column(v)) : typename V::Words{};
    }
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
#pragma unroll
      for (int i = 0; i < V::kCount; ++i) x[v][i] = 0.f;
#pragma unroll
      for (int s = 0; s < kSources; ++s) {
        float more[V::kCount];
        V::unpack(words[s][v], more);
#pragma unroll
        for (int i = 0; i < V::kCount; ++i) x[v][i] += more[i];
      }
    }
  }

  __device__ __forceinline__ float sum() const {
    float total = 0.f;
#pragma unroll
    for (int v = 0; v < kVectors; ++v)
#pragma unroll
      for (int i = 0; i < V::kCount; ++i) total += x[v][i];  // what is past the row is 0
    return warp_sum(total);
  }

  __device__ __forceinline__ float squares() const {
    float total = 0.f;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (column(v) >= p.columns) continue;
#pragma unroll
      for (int i = 0; i < V::kCount; ++i) total = __fmaf_rn(x[v][i], x[v][i], total);
    }
    return warp_sum(total);
  }

  __device__ __forceinline__ void normalise() {
    const float inverse_columns = 1.f / static_cast<float>(p.columns);
    const float mean = __fmul_rn(sum(), inverse_columns);  // not to be joined with what subtracts it
#pragma unroll
    for (int v = 0; v < kVectors; ++v)
#pragma unroll
      for (int i = 0; i < V::kCount; ++i) x[v][i] -= mean;
    const float factor = rsqrtf(__fmaf_rn(squares(), inverse_columns, p.epsilon));
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (column(v) >= p.columns) continue;
#pragma unroll
      for (int i = 0; i < V::kCount; i += 4) {
        const float4 by = scale[v][i / 4], add = shift[v][i / 4];
        x[v][i] = __fmaf_rn(x[v][i] * factor, by.x, add.x);
        x[v][i + 1] = __fmaf_rn(x[v][i + 1] * factor, by.y, add.y);
        x[v][i + 2] = __fmaf_rn(x[v][i + 2] * factor, by.z, add.z);
        x[v][i + 3] = __fmaf_rn(x[v][i + 3] * factor, by.w, add.w);
      }
    }
  }

  __device__ __forceinline__ void store() const {
    auto* to = static_cast<typename Storage::Stored*>(p.out) + static_cast<long long>(row) * p.columns;
#pragma unroll
    for (int v = 0; v < kVectors; ++v)
      if (column(v) < p.columns) V::store(to + column(v), x[v]);
  }
};

// Grid: {rows / SumNormGrid::kWarps}.
template <class Storage, int kSources>
__global__ void __launch_bounds__(32 * SumNormGrid::kWarps) sum_norm_kernel(const __grid_constant__ SumNormParams p) {
  using Row = RowSum<Storage, kSources>;
  const int row = static_cast<int>(blockIdx.x) * SumNormGrid::kWarps + static_cast<int>(threadIdx.x) / 32;
  Row work{p, row, static_cast<int>(threadIdx.x) % 32};
  if (p.scale != nullptr) work.load_weights();
  follow_previous_grid();
  if (row >= p.rows) return;
  work.load();
  if (p.scale != nullptr) work.normalise();
  work.store();
}

// Any number of columns and sources, any address: a CTA of kWideThreads a row, which is read once for each statistic.
constexpr int kWideThreads = SumNormGrid::kWideThreads;
template <class Storage>
struct WideRow {
  const SumNormParams& p;
  int row;

  __device__ __forceinline__ float at(int column) const {
    float x = 0.f;
#pragma unroll 1
    for (int s = 0; s < p.count; ++s)
      x += Storage::load(values_of<Storage>(p.sources[s], index_of(p.sources[s], row), p.columns)[column]);
    return x;
  }
  template <class Term>
  __device__ __forceinline__ float mean_of(Term&& term, float (&partial)[kWideThreads / 32]) const {
    float total = 0.f;
    for (int c = static_cast<int>(threadIdx.x); c < p.columns; c += kWideThreads) total += term(at(c));
    return block_sum<kWideThreads>(total, partial) / static_cast<float>(p.columns);
  }
};

// Grid: {rows}.
template <class Storage>
__global__ void __launch_bounds__(kWideThreads) wide_sum_norm_kernel(const __grid_constant__ SumNormParams p) {
  __shared__ float partial[kWideThreads / 32];
  const WideRow<Storage> row{p, static_cast<int>(blockIdx.x)};
  follow_previous_grid();
  float mean = 0.f, factor = 1.f;
  if (p.scale != nullptr) {
    mean = row.mean_of([](float x) { return x; }, partial);
    factor = rsqrtf(row.mean_of([mean](float x) { return (x - mean) * (x - mean); }, partial) + p.epsilon);
  }
  auto* to = static_cast<typename Storage::Stored*>(p.out) + static_cast<long long>(blockIdx.x) * p.columns;
  // A thread writes the columns that it reads here and nobody reads after the sums: out may be a source.
  for (int c = static_cast<int>(threadIdx.x); c < p.columns; c += kWideThreads) {
    const float x = row.at(c);
    to[c] = Storage::store(p.scale != nullptr ? __fmaf_rn((x - mean) * factor, p.scale[c], p.shift[c]) : x);
  }
}

}  // namespace stof::cuda
