// SPDX-License-Identifier: Apache-2.0
// Operations on two halves: of a head, which positions turn, and of a row, a gate and what it lets through. A thread
// has as many values of either half as a vector holds, and does nothing else; every byte is read and written once. All
// pieces are fewer than 2^31.
#pragma once
#include "kernels/cuda/add_rows.cuh"
#include "kernels/cuda/pieces.cuh"

namespace stof::cuda {

constexpr int kHalfThreads = HalvesGrid::kThreads;

// The halves of a head, by the angles of a position.
template <int kCount>
__device__ __forceinline__ void turn(float (&a)[kCount], float (&b)[kCount], const float (&cosine)[kCount],
                                     const float (&sine)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const float first = __fmaf_rn(-b[i], sine[i], a[i] * cosine[i]);
    b[i] = __fmaf_rn(a[i], sine[i], b[i] * cosine[i]);
    a[i] = first;
  }
}

// Where columns of a row from `column` on go: to its place in what is kept, or to the result.
template <class Stored>
__device__ __forceinline__ Stored* place_of_columns(const RotateParams& p, int row, int column) {
  const bool kept = column >= p.kept_from;
  Stored* const to = static_cast<Stored*>(kept ? p.kept : p.out);
  const long long index = kept ? p.places[row] : row;
  return kept ? to + index * (p.columns - p.kept_from) + (column - p.kept_from) : to + index * p.columns + column;
}

// kVectors: columns and half are multiples of Vector::kCount, and addresses of 16.
// Grid: {threads / kHalfThreads}, each row taking heads * half pieces, and what follows the heads where it is copied.
template <class Storage, bool kVectors>
__global__ void __launch_bounds__(kHalfThreads) rotate_kernel(const __grid_constant__ RotateParams p) {
  using V = Piece<Storage, kVectors>;
  using Stored = typename Storage::Stored;
  const int of_head = p.half / V::kCount, turned = p.heads * of_head;
  const int copied = p.x == p.out && p.kept == nullptr ? 0 : p.columns / V::kCount - 2 * turned,
            of_row = turned + copied;
  const int index = static_cast<int>(blockIdx.x) * kHalfThreads + static_cast<int>(threadIdx.x);
  const int row = index / of_row, piece = index - row * of_row;
  follow_previous_grid();
  if (row >= p.rows) return;
  const Stored* const x = static_cast<const Stored*>(p.x) + static_cast<long long>(row) * p.columns;
  float a[V::kCount], b[V::kCount], cosine[V::kCount], sine[V::kCount];
  if (piece >= turned) {
    const int at = (piece + turned) * V::kCount;
    Stored* const to = place_of_columns<Stored>(p, row, at);
    V::load(x + at, a);
    V::store(to, a);
    return;
  }
  const int head = piece / of_head, within = (piece - head * of_head) * V::kCount, at = 2 * head * p.half + within;
  const float* const angles = p.angles + static_cast<long long>(p.positions[row]) * 2 * p.half + within;
  Stored* const to = place_of_columns<Stored>(p, row, at);  // asked for together with all else
  load_floats(angles, cosine);
  load_floats(angles + p.half, sine);
  V::load(x + at, a);
  V::load(x + at + p.half, b);
  turn(a, b, cosine, sine);
  V::store(to, a);
  V::store(to + p.half, b);
}

// Through L1: of rows of 8 columns in 16 bits, as halves that are paired have them, a sector has a piece of the gate
// and what that lets through, which are asked for one after the other.
template <class V, class Stored>
__device__ __forceinline__ void load_near(const Stored* from, float (&x)[V::kCount]) {
  V::unpack(__ldca(reinterpret_cast<const typename V::Words*>(from)), x);
}

// kVectors: columns are a multiple of Vector::kCount, and addresses of 16. Grid: {pieces of all rows / kHalfThreads}.
template <class Storage, bool kVectors>
__global__ void __launch_bounds__(kHalfThreads) gate_kernel(const __grid_constant__ GateParams p) {
  using V = Piece<Storage, kVectors>;
  using Stored = typename Storage::Stored;
  const int of_row = p.columns / V::kCount;
  const int index = static_cast<int>(blockIdx.x) * kHalfThreads + static_cast<int>(threadIdx.x);
  const int row = index / of_row, piece = index - row * of_row;
  follow_previous_grid();
  if (row >= p.rows) return;
  const Stored* const x = static_cast<const Stored*>(p.x) + 2ll * row * p.columns + piece * V::kCount;
  float gate[V::kCount], other[V::kCount];
  load_near<V>(x, gate);
  load_near<V>(x + p.columns, other);
  activate<Storage>(p.activation, gate);
#pragma unroll
  for (int i = 0; i < V::kCount; ++i) gate[i] *= other[i];
  V::store(static_cast<Stored*>(p.out) + static_cast<long long>(row) * p.columns + piece * V::kCount, gate);
}

}  // namespace stof::cuda
