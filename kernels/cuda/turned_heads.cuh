// SPDX-License-Identifier: Apache-2.0
// Heads that positions turn, a warp for as many whole heads as its lanes have pieces of: it reads and writes rows
// without gaps, and a lane takes from another what its piece turns with. Where a lane has both halves of a head of 64,
// as in rotate_kernel, a warp touches half of each line of 128 bytes, twice: half the bytes in a second.
#pragma once
#include "kernels/cuda/halves.cuh"

namespace stof::cuda {

// Which piece of which head a lane has, of groups of heads; behind the last of them what is copied, by whole warps.
template <class Storage>
struct LaneOfHeads {
  static constexpr int kCount = Vector<Storage>::kCount;
  const RotateParams& p;
  int lane, of_half, slots, slot, piece, end;  // columns from `end` on stay where they are

  __device__ __forceinline__ LaneOfHeads(const RotateParams& params, int of_warp) : p(params), lane(of_warp) {
    of_half = p.half / kCount;
    slots = 32 / (2 * of_half);
    slot = lane / (2 * of_half);
    piece = lane - slot * 2 * of_half;
    end = p.x == p.out && p.kept == nullptr ? 2 * p.heads * p.half : p.columns;
  }
  __device__ __forceinline__ bool second() const { return piece >= of_half; }
  // Of the lane that has what this one's piece turns with; a lane without a head has its own.
  __device__ __forceinline__ int partner() const {
    return slot >= slots ? lane : second() ? lane - of_half : lane + of_half;
  }
  __device__ __forceinline__ int angle() const { return (second() ? piece - of_half : piece) * kCount; }
  __device__ __forceinline__ bool turns(int group) const { return group * slots < p.heads; }
  // From `end` on the lane has nothing.
  __device__ __forceinline__ int column(int group) const {
    const int head = group * slots + slot, behind = group - (p.heads + slots - 1) / slots;
    if (!turns(group)) return 2 * p.heads * p.half + (behind * 32 + lane) * kCount;
    return slot < slots && head < p.heads ? 2 * head * p.half + piece * kCount : end;
  }
};

template <class Words>
__device__ __forceinline__ Words words_of_lane(const Words& words, int lane) {
  return {__shfl_sync(~0u, words.x, lane), __shfl_sync(~0u, words.y, lane), __shfl_sync(~0u, words.z, lane),
          __shfl_sync(~0u, words.w, lane)};
}

// Needs heads of an even number of vectors, at most 32, columns of whole vectors, and addresses that are multiples of
// 16. Grid: {rows / kWarps, groups / kGroups}, what follows the heads being more groups where it is copied.
template <class Storage, int kGroups>
__global__ void __launch_bounds__(32 * TurnedHeadsGrid::kWarps)
    turn_heads_kernel(const __grid_constant__ RotateParams p) {
  using V = Vector<Storage>;
  using Stored = typename Storage::Stored;
  const LaneOfHeads<Storage> of(p, static_cast<int>(threadIdx.x) % 32);
  const int row = static_cast<int>(blockIdx.x) * TurnedHeadsGrid::kWarps + static_cast<int>(threadIdx.x) / 32;
  const int first = static_cast<int>(blockIdx.y) * kGroups;
  follow_previous_grid();
  if (row >= p.rows) return;
  const int position = p.positions[row];
  const Stored* const x = static_cast<const Stored*>(p.x) + static_cast<long long>(row) * p.columns;
  typename V::Words words[kGroups];
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const int column = of.column(first + g);
    words[g] = column < of.end ? V::read(x + column) : typename V::Words{};
  }
  float cosine[V::kCount], sine[V::kCount];
  const float* const angles = p.angles + static_cast<long long>(position) * 2 * p.half + of.angle();
  load_floats(angles, cosine);
  load_floats(angles + p.half, sine);
  if (!of.second())
#pragma unroll
    for (float& one : sine) one = -one;
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    float mine[V::kCount], other[V::kCount];
    V::unpack(words[g], mine);
    V::unpack(words_of_lane(words[g], of.partner()), other);
    if (of.turns(first + g))
#pragma unroll
      for (int i = 0; i < V::kCount; ++i) mine[i] = __fmaf_rn(other[i], sine[i], mine[i] * cosine[i]);
    const int column = of.column(first + g);
    if (column < of.end) V::store(place_of_columns<Stored>(p, row, column), mine);
  }
}

}  // namespace stof::cuda
