// SPDX-License-Identifier: Apache-2.0
// Heads that are divided by their root mean square before positions turn them. A head is read once, by a power of two
// of lanes, each of which has the same pieces of both halves and so turns what it has scaled.
#pragma once
#include "kernels/cuda/halves.cuh"
#include "kernels/cuda/warp_sum.cuh"

namespace stof::cuda {

// The pieces of one head that a lane has; what follows the heads is divided as if it were more of them. Pieces past a
// half or the row are 0, and are not written.
template <class Storage, bool kVectors>
struct HeadOfLanes {
  using V = Piece<Storage, kVectors>;
  using Stored = typename Storage::Stored;
  static constexpr int kPieces = kVectors ? 1 : NormedHeadsGrid::kMostHalf / 32;  // of a lane, of each half
  using Values = float[kPieces][V::kCount];
  const RotateParams& p;
  int lane, lanes;
  int first;  // column of the head
  Values a, b, scale_a, scale_b, cosine, sine;

  __device__ __forceinline__ int within(int piece) const { return (lane + piece * lanes) * V::kCount; }
  // Without a branch: behind one, loads would wait for what is asked for in front of it.
  __device__ __forceinline__ bool has(int piece, int half) const {
    return static_cast<int>(within(piece) < p.half) &
           static_cast<int>(first + half * p.half + within(piece) < p.columns);
  }

  // Asked for together, in front of what is to be waited for.
  __device__ __forceinline__ void load(const Stored* row) {
    typename V::Words of_a[kPieces], of_b[kPieces];
#pragma unroll
    for (int n = 0; n < kPieces; ++n) {
      of_a[n] = has(n, 0) ? V::read(row + first + within(n)) : typename V::Words{};
      of_b[n] = has(n, 1) ? V::read(row + first + p.half + within(n)) : typename V::Words{};
    }
#pragma unroll
    for (int n = 0; n < kPieces; ++n) V::unpack(of_a[n], a[n]), V::unpack(of_b[n], b[n]);
  }
  __device__ __forceinline__ void load_weights(const float* from, Values& of_a, Values& of_b) const {
#pragma unroll
    for (int n = 0; n < kPieces; ++n) {
      if (within(n) >= p.half) continue;
      load_floats(from + within(n), of_a[n]);
      load_floats(from + p.half + within(n), of_b[n]);
    }
  }
  __device__ __forceinline__ void store(Stored* head) const {
#pragma unroll
    for (int n = 0; n < kPieces; ++n) {
      if (has(n, 0)) V::store(head + within(n), a[n]);
      if (has(n, 1)) V::store(head + p.half + within(n), b[n]);
    }
  }

  // By whole warps: the same in all lanes of a head.
  __device__ __forceinline__ float squares() const {
    float total = 0.f;
#pragma unroll
    for (int n = 0; n < kPieces; ++n)
#pragma unroll
      for (int i = 0; i < V::kCount; ++i) total = __fmaf_rn(b[n][i], b[n][i], __fmaf_rn(a[n][i], a[n][i], total));
    for (int step = lanes / 2; step; step >>= 1) total += __shfl_xor_sync(~0u, total, step);
    return total;
  }
  __device__ __forceinline__ void scale_and_turn(float factor) {
#pragma unroll
    for (int n = 0; n < kPieces; ++n) {
#pragma unroll
      for (int i = 0; i < V::kCount; ++i) {
        a[n][i] = a[n][i] * factor * scale_a[n][i];
        b[n][i] = b[n][i] * factor * scale_b[n][i];
      }
      turn(a[n], b[n], cosine[n], sine[n]);
    }
  }
};

// kVectors: columns and half are multiples of Vector::kCount, and addresses of 16.
// Grid: {heads of all rows / (kThreads / lanes)}, what follows the heads being more of them where it is copied.
template <class Storage, bool kVectors>
__global__ void __launch_bounds__(NormedHeadsGrid::kThreads)
    rotate_normed_kernel(const __grid_constant__ NormedHeadsParams p) {
  using Stored = typename Storage::Stored;
  const unsigned index = blockIdx.x * (NormedHeadsGrid::kThreads >> p.lane_bits) + (threadIdx.x >> p.lane_bits);
  const unsigned row = index / static_cast<unsigned>(p.heads_of_row);
  const int head = static_cast<int>(index - row * static_cast<unsigned>(p.heads_of_row));
  const RotateParams& heads = p.heads;
  // Lanes past the last row have nothing, and take part in the sums.
  const bool exists = row < static_cast<unsigned>(heads.rows), turns = exists && head < heads.heads;
  const int lanes = 1 << p.lane_bits;
  HeadOfLanes<Storage, kVectors> work{heads, static_cast<int>(threadIdx.x) & (lanes - 1), lanes,
                                      exists ? 2 * head * heads.half : heads.columns};
  if (turns) work.load_weights(head < p.q_heads ? p.q_scale : p.k_scale, work.scale_a, work.scale_b);
  follow_previous_grid();
  const int position = turns ? heads.positions[row] : 0;
  Stored* const to = exists ? place_of_columns<Stored>(heads, static_cast<int>(row), work.first) : nullptr;
  work.load(static_cast<const Stored*>(heads.x) + static_cast<long long>(row) * heads.columns);
  if (turns)
    work.load_weights(heads.angles + static_cast<long long>(position) * 2 * heads.half, work.cosine, work.sine);
  const float squares = work.squares();
  if (turns) work.scale_and_turn(rsqrtf(__fmaf_rn(squares, p.inverse_dim, p.epsilon)));
  if (exists) work.store(to);
}

}  // namespace stof::cuda
