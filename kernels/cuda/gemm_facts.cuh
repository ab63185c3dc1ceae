// SPDX-License-Identifier: Apache-2.0
// What the epilogue of a tile needs to know of its columns and rows, brought to shared memory while the tile is
// multiplied: by two of the warps that do not multiply.
#pragma once
#include "kernels/cuda/gemm_epilogue.cuh"

namespace stof::cuda {

// Rows first + lane + kLanes * r of a matrix, of which `rows` exist.
struct RowsOfLane {
  int first, rows, lane;
};

// Past L1, which may hold what another kernel wrote there before. Volatile: left to itself the compiler moves each load
// to where it is used, and the latencies add up (3 us for 12 pieces).
__device__ __forceinline__ float2 load_piece(const float2* from) {
  float2 piece;
  asm volatile("ld.global.cg.v2.f32 {%0, %1}, [%2];" : "=f"(piece.x), "=f"(piece.y) : "l"(from));
  return piece;
}

// What makes kCount rows of a lane have mean 0 and deviation 1, from the moments of their pieces.
template <int kCount, int kLanes>
__device__ __forceinline__ void merge_rows(const float* moments, int columns, float epsilon, const RowsOfLane& which,
                                           float2* to) {
  constexpr int kAtOnce = kCount == 1 ? 12 : kCount == 2 ? 6 : kCount == 4 ? 2 : 1;
  const int pieces = (columns + kMomentColumns - 1) / kMomentColumns;
  const float2* from[kCount];
  JoinedMoments joined[kCount];
#pragma unroll
  for (int r = 0; r < kCount; ++r)
    from[r] = reinterpret_cast<const float2*>(moments) +
              static_cast<long long>(min(which.first + which.lane + kLanes * r, which.rows - 1)) * pieces;
  for (int piece = 0; piece < pieces; piece += kAtOnce) {
    float2 next[kAtOnce][kCount];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
#pragma unroll
      for (int r = 0; r < kCount; ++r) next[i][r] = load_piece(from[r] + min(piece + i, pieces - 1));
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const auto size = static_cast<float>(max(0, min(kMomentColumns, columns - (piece + i) * kMomentColumns)));
#pragma unroll
      for (int r = 0; r < kCount; ++r) joined[r].add(size, next[i][r], piece + i == 0);
    }
  }
#pragma unroll
  for (int r = 0; r < kCount; ++r) {
    const float2 row = joined[r].of(static_cast<float>(columns));
    const float factor = rsqrtf(row.y / static_cast<float>(columns) + epsilon);
    to[which.lane + kLanes * r] = make_float2(-row.x * factor, factor);
  }
}

// The vectors of a tile's columns, by one lane: they do not depend on the kernel in front.
template <class Traits>
__device__ __forceinline__ void load_columns(typename Traits::Facts& facts, const GemmParams& p, int column,
                                             u32 barrier) {
  constexpr u32 kBytes = Traits::kColumns * sizeof(float);
  const auto load = [&](int which, const float* vector) {
    load_bytes(shared_address(facts.columns[which]), vector + column, kBytes, barrier);
  };
  barrier_expect(barrier, Traits::kVectors * kBytes);
  if constexpr (Traits::kHasBias) load(Traits::kBias, p.bias);
  if constexpr (Traits::kEpilogue.x_norm) load(Traits::kColumnSum, p.column_sum);
  if constexpr (Traits::kEpilogue.residual_norm) load(Traits::kScale, p.scale), load(Traits::kShift, p.shift);
}

// By two whole warps, 0 and 1. Both share the rows of one norm; of two, each has its own.
template <class Traits>
__device__ __forceinline__ void make_facts(typename Traits::Shared& shared, const GemmParams& p, int warp) {
  constexpr GemmEpilogue kEpilogue = Traits::kEpilogue;
  constexpr bool kBoth = kEpilogue.x_norm && kEpilogue.residual_norm;
  constexpr int kLanes = kBoth || Traits::kOwnRows < 64 ? 32 : 64;
  constexpr int kCount = (Traits::kOwnRows + kLanes - 1) / kLanes;
  const int thread = static_cast<int>(threadIdx.x) % 32 + (kLanes == 64 ? 32 * warp : 0);
  // Fewer rows than lanes, or a warp without rows.
  const bool works = thread < Traits::kOwnRows && (kBoth || kLanes == 64 || warp == 0);
  bool waited = false;
  int turn = 0;
  for (GemmTiles<Traits> tiles(p); tiles.any(); tiles.advance(), ++turn) {
    const int slot = turn % Traits::kSlots;
    auto& facts = shared.facts[slot];
    const u32 full = shared_address(&shared.facts_full[slot]);
    const GemmTile tile = tiles.tile();
    barrier_wait(shared_address(&shared.facts_empty[slot]), (static_cast<u32>(turn / Traits::kSlots) & 1) ^ 1);
    if (warp == 0 && elected()) load_columns<Traits>(facts, p, tile.column, full);
    __syncwarp();
    if constexpr (Traits::kRowFacts) {
      if (!waited) wait_for_previous_grid();
      waited = true;
      const RowsOfLane which{tile.row + tiles.rank * Traits::kOwnRows, p.rows, thread};
      if (kEpilogue.x_norm && works && (!kBoth || warp == 0))
        merge_rows<kCount, kLanes>(p.x_moments, p.inner, p.x_epsilon, which, facts.x_rows);
      if (kEpilogue.residual_norm && works && (!kBoth || warp == 1))
        merge_rows<kCount, kLanes>(p.residual_moments, p.columns, p.residual_epsilon, which, facts.residual_rows);
      if constexpr (kEpilogue.turned) {
        for (int row = thread; row < Traits::kOwnRows; row += kLanes)
          facts.positions[row] = __ldcg(p.positions + min(which.first + row, p.rows - 1));
      }
      barrier_arrive(full);
    }
  }
}

}  // namespace stof::cuda
