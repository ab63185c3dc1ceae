// SPDX-License-Identifier: Apache-2.0
// Two of the four warps of the GEMM kernel that do not multiply: one loads x and the weight, one brings the residual
// and takes the output away. Each by one lane.
#pragma once
#include "kernels/cuda/gemm_traits.cuh"

namespace stof::cuda {

// The weight does not depend on the kernel in front: what the ring holds of it is loaded before the wait.
template <class Traits>
__device__ __forceinline__ void load_operands(typename Traits::Shared& shared, const GemmMaps& maps,
                                              const GemmParams& p) {
  GemmTiles<Traits> tiles(p);
  const GemmSteps steps = steps_of<Traits>(p, tiles.rank);
  const auto load_w = [&](u32 stage, const GemmTile& tile, int step) {
    const u32 barrier = shared_address(&shared.full[stage]);
    barrier_expect(barrier, Traits::kXBytes + Traits::kWBytes);
    load_matrix(shared_address(shared.w[stage]), maps.w, (steps.first + step) * kBoxColumns, tile.column, barrier);
  };
  const auto load_x = [&](u32 stage, const GemmTile& tile, int step) {
    load_matrix(shared_address(shared.x[stage]), maps.x, (steps.first + step) * kBoxColumns, tile.row,
                shared_address(&shared.full[stage]));
  };
  const int ahead = tiles.any() ? min(steps.count, Traits::kStages) : 0;
  const GemmTile first = tiles.tile();
  for (int step = 0; step < ahead; ++step) load_w(static_cast<u32>(step), first, step);
  prefetch_map(maps.x);
  wait_for_previous_grid();
  allow_next_grid();  // not before: grids that wait would fill the SMs from both sides and crowd those that work
  for (int step = 0; step < ahead; ++step) load_x(static_cast<u32>(step), first, step);
  RingPlace<Traits::kStages> ring;
  ring.advance(static_cast<u32>(ahead));
  for (int begin = ahead; tiles.any(); tiles.advance(), begin = 0) {
    const GemmTile tile = tiles.tile();
    for (int step = begin; step < steps.count; ++step, ring.advance()) {
      barrier_wait(shared_address(&shared.empty[ring.stage]), ring.parity ^ 1);
      load_w(ring.stage, tile, step);
      load_x(ring.stage, tile, step);
    }
  }
}

// Boxes of 64 columns go through shared memory one after another: the residual in, the output out.
template <class Traits>
__device__ __forceinline__ void carry_output(typename Traits::Shared& shared, const GemmMaps& maps,
                                             const GemmParams& p) {
  prefetch_map(maps.out);
  if constexpr (Traits::kEpilogue.residual) prefetch_map(maps.residual);
  wait_for_previous_grid();
  int turn = 0;
  for (GemmTiles<Traits> tiles(p); tiles.any(); tiles.advance(), ++turn) {
    const GemmTile tile = tiles.tile();
#pragma unroll
    for (int box = 0; box < Traits::kBoxes; ++box) {
      const u32 ready = shared_address(&shared.ready[turn % Traits::kTeams][box]);
      if constexpr (Traits::kEpilogue.residual) {
        barrier_expect(ready, Traits::kOutBoxBytes);
        load_matrix(shared_address(shared.out[box]), maps.residual, tile.column + box * kBoxColumns, tile.row, ready);
      } else {
        barrier_arrive(ready);
      }
    }
#pragma unroll
    for (int box = 0; box < Traits::kBoxes; ++box) {
      barrier_wait(shared_address(&shared.staged[box]), turn & 1);
      store_matrix(maps.out, tile.column + box * kBoxColumns, tile.row, shared_address(shared.out[box]));
      commit_stores();
    }
    wait_stores_read();
  }
}

}  // namespace stof::cuda
