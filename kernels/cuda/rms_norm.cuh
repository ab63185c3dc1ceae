// SPDX-License-Identifier: Apache-2.0
// Root mean square norm of rows, or of sums of two, as decoders of Llama's kind have it: no mean, no shift. To the
// result a row may be added. A row is read once and stays in registers; the statistic is fp32.
#pragma once
#include "kernels/cuda/pieces.cuh"
#include "kernels/cuda/sum_norm.cuh"

namespace stof::cuda {

// A CTA a row, each thread kVectors vectors of it: needs columns <= kThreads kVectors Vector::kCount, a multiple of
// Vector::kCount, and addresses that are multiples of 16.
template <class Storage, int kThreads, int kVectors, int kForm>
struct RmsRow {
  using V = Vector<Storage>;
  static constexpr bool kAdds = kForm == RmsNormGrid::kAdded;
  static constexpr int kSources = kAdds ? 1 : kForm;
  const SumNormParams& p;
  int row;
  float x[kVectors][V::kCount], scale[kVectors][V::kCount];
  typename V::Words added[kAdds ? kVectors : 1];

  __device__ __forceinline__ int column(int vector) const {
    return (vector * kThreads + static_cast<int>(threadIdx.x)) * V::kCount;
  }
  __device__ __forceinline__ bool has(int vector) const { return column(vector) < p.columns; }

  // Nobody writes it: it need not wait for the kernel in front.
  __device__ __forceinline__ void load_weights() {
#pragma unroll
    for (int v = 0; v < kVectors; ++v)
      if (has(v)) load_floats(p.scale + column(v), scale[v]);
  }

  // Asked for together; 0 past the row.
  __device__ __forceinline__ void load() {
    typename V::Words words[kSources][kVectors];
#pragma unroll
    for (int s = 0; s < kSources; ++s) {
      const auto* from = values_of<Storage>(p.sources[s], index_of(p.sources[s], row), p.columns);
#pragma unroll
      for (int v = 0; v < kVectors; ++v) words[s][v] = has(v) ? V::read(from + column(v)) : typename V::Words{};
    }
    if constexpr (kAdds) {
      const auto* from = values_of<Storage>({p.added, nullptr}, row, p.columns);
#pragma unroll
      for (int v = 0; v < kVectors; ++v) added[v] = has(v) ? V::read(from + column(v)) : typename V::Words{};
    }
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      V::unpack(words[0][v], x[v]);
#pragma unroll
      for (int s = 1; s < kSources; ++s) {
        float more[V::kCount];
        V::unpack(words[s][v], more);
#pragma unroll
        for (int i = 0; i < V::kCount; ++i) x[v][i] += more[i];
      }
    }
  }

  __device__ __forceinline__ float squares() const {
    float total = 0.f;
#pragma unroll
    for (int v = 0; v < kVectors; ++v)
#pragma unroll
      for (int i = 0; i < V::kCount; ++i) total = __fmaf_rn(x[v][i], x[v][i], total);
    return total;
  }

  // Of its own columns, which this thread alone has read: out may be a source, or what is added.
  __device__ __forceinline__ void store_scaled(float factor) {
    auto* to = static_cast<typename Storage::Stored*>(p.out) + static_cast<long long>(row) * p.columns;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (!has(v)) continue;
#pragma unroll
      for (int i = 0; i < V::kCount; ++i) x[v][i] = x[v][i] * factor * scale[v][i];
      if constexpr (kAdds) {
        float more[V::kCount];
        V::unpack(added[v], more);
#pragma unroll
        for (int i = 0; i < V::kCount; ++i) x[v][i] += more[i];
      }
      V::store(to + column(v), x[v]);
    }
  }
};

// kForm: 1 or 2 sources, or RmsNormGrid::kAdded. Grid: {rows}.
template <class Storage, int kThreads, int kVectors, int kForm>
__global__ void __launch_bounds__(kThreads) rms_norm_kernel(const __grid_constant__ SumNormParams p) {
  __shared__ float partial[kThreads / 32];
  const int place = static_cast<int>(blockIdx.x);
  RmsRow<Storage, kThreads, kVectors, kForm> row{p, p.backwards ? p.rows - 1 - place : place};
  row.load_weights();
  follow_previous_grid();
  row.load();
  const float squares = block_sum<kThreads>(row.squares(), partial);
  // A division would be steps and a branch behind the barrier, where every thread of the row waits for them.
  row.store_scaled(rsqrtf(__fmaf_rn(squares, reciprocal_approx(static_cast<float>(p.columns)), p.epsilon)));
}

// Any number of columns and sources, any address: a CTA of kWideThreads a row, which is read twice. Grid: {rows}.
template <class Storage>
__global__ void __launch_bounds__(kWideThreads) wide_rms_norm_kernel(const __grid_constant__ SumNormParams p) {
  __shared__ float partial[kWideThreads / 32];
  const WideRow<Storage> row{p, static_cast<int>(blockIdx.x)};
  follow_previous_grid();
  const float factor = rsqrtf(row.mean_of([](float x) { return x * x; }, partial) + p.epsilon);
  auto* to = static_cast<typename Storage::Stored*>(p.out) + static_cast<long long>(blockIdx.x) * p.columns;
  const auto* const added = values_of<Storage>({p.added, nullptr}, static_cast<int>(blockIdx.x), p.columns);
  // As wide_sum_norm_kernel writes: out may be a source, or what is added.
  for (int c = static_cast<int>(threadIdx.x); c < p.columns; c += kWideThreads)
    to[c] = Storage::store(row.at(c) * factor * p.scale[c] + (p.added ? Storage::load(added[c]) : 0.f));
}

}  // namespace stof::cuda
