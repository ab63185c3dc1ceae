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
  // Norm of x and bias of the whole tile in front of its activations: a thread with many sums has few registers beside
  // them, and what an activation works with then stands in the sums themselves.
  static constexpr bool kColumnsFirst =
      Traits::kEpilogue.activation != kNoActivation && (Traits::kEpilogue.x_norm || Traits::kManySums);
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
    if constexpr (kColumnsFirst) add_all_columns(shared.facts[slot]);
    write_boxes(tile, shared.facts[slot], turn);
    if constexpr (Traits::kHasFacts) barrier_arrive(shared_address(&shared.facts_empty[slot]));
  }

  // The first of the 16 rows of the tile that the warp has of a block.
  __device__ __forceinline__ int row_of(int block) const { return (part * kBlocks + block) * 64 + 16 * warp; }

  __device__ __forceinline__ RowNorms norms_of_thread(const typename Traits::Facts& facts, int block) const {
    return norms_of<Traits>(facts, row_of(block) + lane / 4);
  }

  __device__ __forceinline__ void add_all_columns(const typename Traits::Facts& facts) {
    RowNorms norms[kBlocks];
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) norms[block] = norms_of_thread(facts, block);
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j) {
      const ColumnPair columns = columns_of<Traits>(facts, 8 * j + lane % 4 * 2);
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) add_columns<Traits>(&sums[block][4 * j], columns, norms[block]);
    }
  }

  template <int kBox = 0>
  __device__ __forceinline__ void write_boxes(const GemmTile& tile, const typename Traits::Facts& facts, int turn) {
    barrier_wait(shared_address(&shared.ready[team][kBox]), turn & 1);
    RowMoments moments[kBlocks][2];
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) write_box<kBox>(tile, facts, block, moments[block]);
    fence_async_proxy();
    __syncwarp();
    if (lane == 0) barrier_arrive(shared_address(&shared.staged[kBox]));
    if constexpr (Traits::kEpilogue.moments) {
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) write_moments<kBox>(tile, block, moments[block]);
    }
    if constexpr (kBox + 1 < Traits::kBoxes) write_boxes<kBox + 1>(tile, facts, turn);
  }

  // 16 rows of a box, which holds the residual and takes the output: matrices of 8 x 8 come and go as the accumulators
  // hold them, two at a time side by side.
  template <int kBox>
  __device__ __forceinline__ void write_box(const GemmTile& tile, const typename Traits::Facts& facts, int block,
                                            RowMoments (&moments)[2]) {
    using Box = OutBox<Traits::kOutColumns, kBox>;
    const int first = row_of(block), row = first + lane % 16;
    const int columns = p.columns - tile.column - Box::kFirst;  // of the box, that exist
    const RowPair rows = rows_of<Traits>(p, tile, facts, first + lane / 4, Box::kFirst + lane % 4 * 2);
    const RowNorms norms = kColumnsFirst ? RowNorms{} : norms_of_thread(facts, block);
    const u32 at = shared_address(shared.out) + Box::kFirst * 2 * Traits::kRows + static_cast<u32>(row) * Box::kPitch;
    float* const values = &sums[block][Traits::kEpilogue.gate ? Box::kFirst : Box::kFirst / 2];
    constexpr int kFirstSum = Traits::kEpilogue.gate ? 2 * Box::kFirst : Box::kFirst;
    const auto add_to = [&](int j) {  // a column block of sums
      if constexpr (!kColumnsFirst)
        add_columns<Traits>(values + 4 * j, columns_of<Traits>(facts, kFirstSum + 8 * j + lane % 4 * 2), norms);
    };
#pragma unroll
    for (int j = 0; j < Box::kColumns / 8; j += 2) {
      constexpr int kEach = Box::kColumns > 8 ? 2 : 1;  // column blocks of out at a time
      const u32 place = kEach == 1 ? at : at + (static_cast<u32>((j + (lane >> 4)) ^ Box::swap(row)) << 4);
      u32 residual[2][2] = {}, stored[2][2];
      if constexpr (Traits::kEpilogue.residual && kEach == 1) load_block(residual[0], place);
      else if constexpr (Traits::kEpilogue.residual) load_blocks(residual, place);
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        if constexpr (Traits::kEpilogue.gate) {
          add_to(2 * (j + i)), add_to(2 * (j + i) + 1);
          finish_pair<Traits>(values + 8 * (j + i), stored[i]);
        } else {
          add_to(j + i);
          finish_block<Traits>(values + 4 * (j + i), facts, Box::kFirst + 8 * (j + i) + lane % 4 * 2, rows, residual[i],
                               stored[i]);
          if constexpr (Traits::kEpilogue.moments)
            add_moments<typename Traits::Storage>(moments, stored[i], j + i, columns);
        }
      }
      if constexpr (kEach == 1) store_block(place, stored[0]);
      else store_blocks(place, stored);
    }
  }

  template <int kBox>
  __device__ __forceinline__ void write_moments(const GemmTile& tile, int block, const RowMoments (&moments)[2]) {
    using Box = OutBox<Traits::kOutColumns, kBox>;
    const int row = tile.row + row_of(block) + lane / 4, column = tile.column + Box::kFirst;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float2 whole = moments[i].of_quad(quarter_of(Box::kColumns, p.columns - column));
      if (lane % 4 == 0) store_moments(p, row + 8 * i, column, whole);
    }
  }
};

}  // namespace stof::cuda
