// SPDX-License-Identifier: Apache-2.0
// A tile whose inner dimension several CTAs share: each sends its sums to the CTA that writes those rows, which adds
// them up in the order of the CTAs and finishes them.
#pragma once
#include "kernels/cuda/gemm_epilogue.cuh"

namespace stof::cuda {

template <class Traits>
struct GemmShare {
  // A CTA writes kGroups groups of 16 rows; kSharers warps share a group, each with its part of the columns.
  static constexpr int kGroups = Traits::kSplit > 1 ? Traits::kOwnRows / 16 : Traits::kWarps;
  static constexpr int kSharers = Traits::kWarps / kGroups, kColumnBlocks = Traits::kColumns / 8;
  static constexpr int kOwnBlocks = (kColumnBlocks + kSharers - 1) / kSharers, kOwnColumns = 8 * kOwnBlocks;
  static constexpr bool kEven =
      kSharers * kOwnBlocks == kColumnBlocks;  // otherwise the last ones have less, or nothing
  static_assert(Traits::kSplit == 1 || !Traits::kEpilogue.moments || (kEven && kOwnColumns <= kMomentColumns));
  struct Residual {
    u32 rows[kOwnBlocks][2];  // pairs of columns, of a thread's two rows
  };
  typename Traits::Shared& shared;
  const GemmParams& p;
  GemmTile tile;
  int rank, warp, lane;  // warp: of the team

  __device__ __forceinline__ int group() const { return warp / kSharers; }
  __device__ __forceinline__ int first_block() const { return warp % kSharers * kOwnBlocks; }
  __device__ __forceinline__ int row() const { return tile.row + rank * Traits::kOwnRows + 16 * group() + lane / 4; }
  __device__ __forceinline__ int column(int block) const { return 8 * (first_block() + block) + lane % 4 * 2; }
  __device__ __forceinline__ bool has(int block) const { return kEven || first_block() + block < kColumnBlocks; }
  __device__ __forceinline__ bool exists(int i, int block) const {
    return has(block) && row() + 8 * i < p.rows && tile.column + column(block) < p.columns;
  }
  __device__ __forceinline__ long long place(int i, int block) const {
    return static_cast<long long>(row() + 8 * i) * p.columns + tile.column + column(block);
  }

  __device__ __forceinline__ void write(const float (&sums)[Traits::kColumns / 2], const Residual& residual) const {
    send_sums(sums);
    if constexpr (Traits::kHasFacts) barrier_wait(shared_address(&shared.facts_full[0]), 0);
    const int own_row = 16 * group() + lane / 4;
    const RowPair rows = rows_of<Traits>(p, tile, shared.facts[0], own_row, column(0));
    const RowNorms norms = norms_of<Traits>(shared.facts[0], own_row);
    float own[4 * kOwnBlocks] = {};
    RowMoments moments[2];
    add_up(own);
#pragma unroll
    for (int j = 0; j < kOwnBlocks; ++j) {
      if (!kEven && !has(j)) continue;
      u32 stored[2];
      add_columns<Traits>(own + 4 * j, columns_of<Traits>(shared.facts[0], column(j)), norms);
      finish_block<Traits>(own + 4 * j, shared.facts[0], column(j), rows, residual.rows[j], stored);
      if constexpr (Traits::kEpilogue.moments)
        add_moments<typename Traits::Storage>(moments, stored, j, p.columns - tile.column - 8 * first_block());
#pragma unroll
      for (int i = 0; i < 2; ++i)
        if (exists(i, j)) *reinterpret_cast<u32*>(static_cast<unsigned short*>(p.out) + place(i, j)) = stored[i];
    }
    if constexpr (Traits::kEpilogue.moments) write_moments(moments);
  }

  // The warp's 16 rows are those of group warp % kGroups of CTA warp / kGroups, which may be this one.
  __device__ __forceinline__ void send_sums(const float (&sums)[Traits::kColumns / 2]) const {
    const int owner = warp / kGroups;
    float4* const here = &shared.incoming[rank][warp % kGroups * kColumnBlocks * 32 + lane];
    const u32 all_sums = shared_address(&shared.all_sums);
    if (owner == rank) {
#pragma unroll
      for (int j = 0; j < kColumnBlocks; ++j)
        here[32 * j] = make_float4(sums[4 * j], sums[4 * j + 1], sums[4 * j + 2], sums[4 * j + 3]);
      barrier_arrive(all_sums);
    } else {
      const u32 there = address_of_rank(shared_address(here), owner), barrier = address_of_rank(all_sums, owner);
#pragma unroll
      for (int j = 0; j < kColumnBlocks; ++j) send(there + j * 512, sums + 4 * j, barrier);
    }
  }

  __device__ __forceinline__ void add_up(float (&own)[4 * kOwnBlocks]) const {
    cluster_barrier_wait(shared_address(&shared.all_sums), 0);
#pragma unroll
    for (int other = 0; other < Traits::kSplit; ++other)
#pragma unroll
      for (int j = 0; j < kOwnBlocks; ++j) {
        if (!kEven && !has(j)) continue;
        const float4 v = shared.incoming[other][(group() * kColumnBlocks + first_block() + j) * 32 + lane];
        own[4 * j] += v.x, own[4 * j + 1] += v.y, own[4 * j + 2] += v.z, own[4 * j + 3] += v.w;
      }
  }

  // Asked for before the steps: it is there when they are done.
  __device__ __forceinline__ Residual read_residual() const {
    Residual residual{};
    if constexpr (Traits::kEpilogue.residual) {
      wait_for_previous_grid();
#pragma unroll
      for (int j = 0; j < kOwnBlocks; ++j)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          if (exists(i, j))
            residual.rows[j][i] =
                __ldcg(reinterpret_cast<const u32*>(static_cast<const unsigned short*>(p.residual) + place(i, j)));
    }
    return residual;
  }

  // Warps that share a piece put their moments together, equal numbers of columns each but at the matrix' edge.
  __device__ __forceinline__ void write_moments(const RowMoments (&rows)[2]) const {
    constexpr int kParts = kMomentColumns / kOwnColumns;
    const int begin = tile.column + 8 * first_block();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float2 moments = rows[i].of_quad(quarter_of(kOwnColumns, p.columns - begin));
      if (lane % 4 == 0) shared.pieces[warp][lane / 4 + 8 * i] = moments;
    }
    named_barrier<1, 128 * Traits::kWarpgroups>();
    if (warp % kParts != 0 || lane >= 16) return;
    JoinedMoments joined;
#pragma unroll
    for (int other = 0; other < kParts; ++other) {
      const int size = max(0, min(kOwnColumns, p.columns - begin - other * kOwnColumns));
      joined.add(static_cast<float>(size), shared.pieces[warp + other][lane], other == 0);
    }
    store_moments(p, tile.row + rank * Traits::kOwnRows + 16 * group() + lane, begin,
                  joined.of(static_cast<float>(min(kMomentColumns, p.columns - begin))));
  }
};

}  // namespace stof::cuda
