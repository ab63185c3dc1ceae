// SPDX-License-Identifier: Apache-2.0
// A bias or other rows added, and an activation, elementwise.
#pragma once
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/storage.cuh"
#include "kernels/cuda/warp_sum.cuh"
#include "kernels/shared/rows.h"

namespace stof::cuda {

template <class Storage, int kCount>
__device__ __forceinline__ void activate(int activation, float (&x)[kCount]) {
  if (activation == kGelu) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] = gelu<Storage>(x[i]);
  } else if (activation == kGeluTanh) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] = gelu_tanh(x[i]);
  } else if (activation == kSilu) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] = silu(x[i]);
  } else if (activation == kRelu) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] = relu(x[i]);
  } else if (activation == kTanh) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] = tanhf(x[i]);
  }
}

constexpr int kAddThreads = AddGrid::kThreads, kAddRows = AddGrid::kRows;

// Needs columns that are a multiple of Vector::kCount and addresses that are multiples of 16.
// Grid: {rows / kAddRows, columns / (kAddThreads * Vector::kCount)}.
template <class Storage>
__global__ void __launch_bounds__(kAddThreads) add_rows_kernel(const __grid_constant__ AddParams p) {
  using V = Vector<Storage>;
  using Stored = typename Storage::Stored;
  const int column = static_cast<int>(blockIdx.y * kAddThreads + threadIdx.x) * V::kCount;
  const int first = static_cast<int>(blockIdx.x) * kAddRows;
  follow_previous_grid();
  if (column >= p.columns) return;
  float bias[V::kCount] = {};
  if (p.bias != nullptr)
#pragma unroll
    for (int i = 0; i < V::kCount; ++i) bias[i] = p.bias[column + i];
  const auto at = [&](int r) { return static_cast<long long>(first + r) * p.columns + column; };
  typename V::Words x[kAddRows] = {}, y[kAddRows] = {};  // zeros, where there is no y
#pragma unroll
  for (int r = 0; r < kAddRows; ++r)
    if (first + r < p.rows) {
      x[r] = V::read(static_cast<const Stored*>(p.x) + at(r));
      if (p.y != nullptr) y[r] = V::read(static_cast<const Stored*>(p.y) + at(r));
    }
#pragma unroll
  for (int r = 0; r < kAddRows; ++r) {
    if (first + r >= p.rows) continue;
    float sum[V::kCount], more[V::kCount];
    V::unpack(x[r], sum);
    V::unpack(y[r], more);
#pragma unroll
    for (int i = 0; i < V::kCount; ++i) sum[i] = sum[i] + bias[i] + more[i];
    activate<Storage>(p.activation, sum);
    V::store(static_cast<Stored*>(p.out) + at(r), sum);
  }
}

// Any number of columns, any address. Grid: {rows, columns / kAddThreads}.
template <class Storage>
__global__ void __launch_bounds__(kAddThreads) add_any_rows_kernel(const __grid_constant__ AddParams p) {
  using Stored = typename Storage::Stored;
  const int column = static_cast<int>(blockIdx.y * kAddThreads + threadIdx.x);
  follow_previous_grid();
  if (column >= p.columns) return;
  const long long at = static_cast<long long>(blockIdx.x) * p.columns + column;
  float x[1] = {Storage::load(static_cast<const Stored*>(p.x)[at])};
  if (p.bias != nullptr) x[0] += p.bias[column];
  if (p.y != nullptr) x[0] += Storage::load(static_cast<const Stored*>(p.y)[at]);
  activate<Storage>(p.activation, x);
  static_cast<Stored*>(p.out)[at] = Storage::store(x[0]);
}

}  // namespace stof::cuda
