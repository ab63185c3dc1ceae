// SPDX-License-Identifier: Apache-2.0
// A multiplying warpgroup of the GEMM kernel: sums along the inner dimension in registers, then their way out.
#pragma once
#include "kernels/cuda/gemm_epilogue.cuh"
#include "kernels/cuda/gemm_share.cuh"

namespace stof::cuda {

// Matrices of 8 x 8 of 16 rows: first those of one column block, rows 0 and 8, then those of the next. Each lane names
// a row of one: lanes 0 to 15 the rows of the first block, the others of the second.
__device__ __forceinline__ void load_blocks(u32 (&to)[2][2], u32 place) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0][0]), "=r"(to[0][1]), "=r"(to[1][0]), "=r"(to[1][1])
               : "r"(place)
               : "memory");
}
__device__ __forceinline__ void store_blocks(u32 place, const u32 (&from)[2][2]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(place), "r"(from[0][0]),
               "r"(from[0][1]), "r"(from[1][0]), "r"(from[1][1])
               : "memory");
}
// Of one column block.
__device__ __forceinline__ void load_block(u32 (&to)[2], u32 place) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(to[0]), "=r"(to[1])
               : "r"(place)
               : "memory");
}
__device__ __forceinline__ void store_block(u32 place, const u32 (&from)[2]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(place), "r"(from[0]), "r"(from[1])
               : "memory");
}

template <class Traits>
struct GemmConsumer {
  using Shared = typename Traits::Shared;
  static constexpr int kBlocks = Traits::kBlocks, kColumns = Traits::kColumns;
  // Beside the box on its way out. With 192 sums a thread that spills 1,078 bytes, where at once it is 116.
  static constexpr bool kMomentsLate = kBlocks * kColumns / 2 <= 128;
  Shared& shared;
  const GemmParams& p;
  int team, part, warp, lane;  // part: of the team's warpgroups
  RingPlace<Traits::kStages> ring;
  float sums[kBlocks][kColumns / 2];

  __device__ __forceinline__ GemmConsumer(Shared& memory, const GemmParams& params, int group)
      : shared(memory),
        p(params),
        team(group / Traits::kWarpgroups),
        part(group % Traits::kWarpgroups),
        warp(uniform(static_cast<int>(threadIdx.x) / 32 % 4)),
        lane(static_cast<int>(threadIdx.x) % 32) {}

  __device__ __forceinline__ void run() {
    GemmTiles<Traits> tiles(p);
    const GemmSteps steps = steps_of<Traits>(p, tiles.rank);
    if constexpr (Traits::kCluster > 1) cluster_wait();  // the others have made their barriers
    if constexpr (Traits::kSplit > 1) {
      const GemmShare<Traits> share{shared, p, tiles.tile(), tiles.rank, part * 4 + warp, lane};
      const auto residual = share.read_residual();
      multiply(steps.count, 0, 0);
      share.write(sums[0], residual);
    } else {
      tiles.advance(team);
      ring.advance(static_cast<u32>(team * steps.count));
      for (int turn = 0; tiles.any(); tiles.advance(Traits::kTeams), ++turn) {
        multiply(steps.count, turn, tiles.left() * steps.count);
        ring.advance(static_cast<u32>((Traits::kTeams - 1) * steps.count));
        write(tiles.tile(), turn);
      }
    }
  }

  // Sums over steps, two of them on their way at a time. Teams multiply in the order of their tiles: one that ran ahead
  // would take a stage of the round before for its own. `after`: the CTA's steps behind this tile.
  __device__ __forceinline__ void multiply(int steps, int turn, int after) {
    if constexpr (Traits::kTeams > 1) {
      if (turn + team > 0) barrier_wait(shared_address(&shared.turn[team]), (turn + team - 1) & 1);
    }
    const u32 x = descriptor(shared_address(shared.x[0])) + static_cast<u32>(part * kBlocks * (64 * kRowBytes / 16));
    const u32 w = descriptor(shared_address(shared.w[0]));
    if constexpr (Traits::kForgetsSums) {
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) forget(sums[block]);
    }
    u32 before = 0;
    for (int step = 0; step < steps; ++step) {
      barrier_wait(shared_address(&shared.full[ring.stage]), ring.parity);
      matmul_fence();
      const u32 x_at = x + ring.stage * (Traits::kXBytes / 16), w_at = w + ring.stage * (Traits::kWBytes / 16);
#pragma unroll
      for (int k = 0; k < kBoxColumns / 16; ++k)
#pragma unroll
        for (int block = 0; block < kBlocks; ++block)
          Wgmma<typename Traits::Element, kColumns>::shared(sums[block], x_at + block * (64 * kRowBytes / 16) + 2 * k,
                                                            w_at + 2 * k, step + k != 0);
      matmul_commit();
      if (step > 0) {
        matmul_wait<1>();
        release(before, after + steps - step);
      }
      before = ring.stage;
      ring.advance();
    }
    if constexpr (Traits::kTeams > 1) {
      if (lane == 0) barrier_arrive(shared_address(&shared.turn[(team + 1) % Traits::kTeams]));
    }
    matmul_wait<0>();
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) pin(sums[block]);
    release(before, after);
  }

  // For all who write to it. `after`: the steps that follow; a stage that none of them takes is given back to nobody,
  // who may have left.
  __device__ __forceinline__ void release(u32 stage, int after) {
    const u32 empty = shared_address(&shared.empty[stage]);
    if constexpr (Traits::kShare > 1) {
      if (lane < Traits::kShare && after >= Traits::kStages) arrive_there(address_of_rank(empty, lane));
    } else {
      if (lane == 0) barrier_arrive(empty);
    }
  }

  __device__ __forceinline__ void write(const GemmTile& tile, int turn) {
    const int order = turn * Traits::kTeams + team, slot = order % Traits::kSlots;
    if constexpr (Traits::kHasFacts) barrier_wait(shared_address(&shared.facts_full[slot]), order / Traits::kSlots & 1);
    write_boxes(tile, shared.facts[slot], turn);
    if constexpr (Traits::kHasFacts) barrier_arrive(shared_address(&shared.facts_empty[slot]));
  }

  template <int kBox = 0>
  __device__ __forceinline__ void write_boxes(const GemmTile& tile, const typename Traits::Facts& facts, int turn) {
    barrier_wait(shared_address(&shared.ready[team][kBox]), turn & 1);
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      write_box<kBox>(tile, facts, block);
      if constexpr (Traits::kEpilogue.moments && !kMomentsLate) write_moments<kBox>(tile, block);
    }
    fence_async_proxy();
    __syncwarp();
    if (lane == 0) barrier_arrive(shared_address(&shared.staged[kBox]));
    if constexpr (Traits::kEpilogue.moments && kMomentsLate) {
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) write_moments<kBox>(tile, block);
    }
    if constexpr (kBox + 1 < Traits::kBoxes) write_boxes<kBox + 1>(tile, facts, turn);
  }

  // 16 rows of a box, which holds the residual and takes the output: matrices of 8 x 8 come and go as the accumulators
  // hold them, two at a time side by side.
  template <int kBox>
  __device__ __forceinline__ void write_box(const GemmTile& tile, const typename Traits::Facts& facts, int block) {
    using Box = OutBox<Traits::kOutColumns, kBox>;
    const int first = (part * kBlocks + block) * 64 + 16 * warp, row = first + lane % 16;
    const RowPair rows = rows_of<Traits>(p, tile, facts, first + lane / 4, Box::kFirst + lane % 4 * 2);
    const u32 at = shared_address(shared.out) + Box::kFirst * 2 * Traits::kRows + static_cast<u32>(row) * Box::kPitch;
    float* const values = &sums[block][Traits::kEpilogue.gate ? Box::kFirst : Box::kFirst / 2];
#pragma unroll
    for (int j = 0; j < Box::kColumns / 8; j += 2) {
      const int column = Box::kFirst + 8 * j + lane % 4 * 2;
      u32 residual[2][2] = {}, stored[2][2];
      if constexpr (Traits::kEpilogue.gate) {
        const int pair = 2 * (Box::kFirst + 8 * j) + lane % 4 * 2;
        finish_pair<Traits>(values + 8 * j, facts, pair, rows, stored[0]);
        if constexpr (Box::kColumns > 8) finish_pair<Traits>(values + 8 * j + 8, facts, pair + 16, rows, stored[1]);
        if constexpr (Box::kColumns == 8) store_block(at, stored[0]);
        else store_blocks(at + (static_cast<u32>((j + (lane >> 4)) ^ Box::swap(row)) << 4), stored);
      } else if constexpr (Box::kColumns == 8) {
        if constexpr (Traits::kEpilogue.residual) load_block(residual[0], at);
        finish_block<Traits>(values, facts, column, rows, residual[0], stored[0]);
        store_block(at, stored[0]);
      } else {
        const u32 place = at + (static_cast<u32>((j + (lane >> 4)) ^ Box::swap(row)) << 4);
        if constexpr (Traits::kEpilogue.residual) load_blocks(residual, place);
        finish_block<Traits>(values + 4 * j, facts, column, rows, residual[0], stored[0]);
        finish_block<Traits>(values + 4 * j + 4, facts, column + 8, rows, residual[1], stored[1]);
        store_blocks(place, stored);
      }
    }
  }

  // Of 16 rows of a box as they are stored, which stand where their sums were.
  template <int kBox>
  __device__ __forceinline__ void write_moments(const GemmTile& tile, int block) {
    using Box = OutBox<Traits::kOutColumns, kBox>;
    const int row = tile.row + (part * kBlocks + block) * 64 + 16 * warp + lane / 4;
    const int column = tile.column + Box::kFirst;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float2 moments = moments_of<8>(&sums[block][Box::kFirst / 2], i, p.columns - column);
      if (lane % 4 == 0) store_moments(p, row + 8 * i, column, moments);
    }
  }
};

}  // namespace stof::cuda
