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
    const u32 barrier = shared_address(&shared.full[stage]), target = shared_address(shared.w[stage]);
    const int column = (steps.first + step) * kBoxColumns;
    barrier_expect(barrier, Traits::kXBytes + Traits::kWBytes);
    if constexpr (Traits::kShare == 1) {
      load_matrix(target, maps.w, column, tile.column, barrier);
    } else {
      constexpr int kOwn = Traits::kColumns / Traits::kShare;  // the rest is what the others load
      constexpr unsigned short kAll = (1 << Traits::kShare) - 1;
      load_matrix_for(kAll, target + tiles.below * kOwn * kRowBytes, maps.w, column, tile.column + tiles.below * kOwn,
                      barrier);
    }
  };
  const auto load_x = [&](u32 stage, const GemmTile& tile, int step) {
    load_matrix(shared_address(shared.x[stage]), maps.x, (steps.first + step) * kBoxColumns, tile.row,
                shared_address(&shared.full[stage]));
  };
  const int ahead = tiles.any() ? min(steps.count, Traits::kStages) : 0;
  const GemmTile first = tiles.tile();
  if (elected()) {
    for (int step = 0; step < ahead; ++step) load_w(static_cast<u32>(step), first, step);
    prefetch_map(maps.x);
    wait_for_previous_grid();
    allow_next_grid();  // not before: grids that wait would fill the SMs from both sides and crowd those that work
    for (int step = 0; step < ahead; ++step) load_x(static_cast<u32>(step), first, step);
  }
  __syncwarp();
  RingPlace<Traits::kStages> ring;
  ring.advance(static_cast<u32>(ahead));
  for (int begin = ahead; tiles.any(); tiles.advance(), begin = 0) {
    const GemmTile tile = tiles.tile();
    for (int step = begin; step < steps.count; ++step, ring.advance()) {
      barrier_wait(shared_address(&shared.empty[ring.stage]), ring.parity ^ 1);
      if (elected()) {
        load_w(ring.stage, tile, step);
        load_x(ring.stage, tile, step);
      }
    }
  }
}

template <class Traits>
__device__ __forceinline__ int out_column(const GemmTile& tile) {
  return Traits::kEpilogue.gate ? tile.column / 2 : tile.column;
}

// The boxes of one tile: the residual in,
template <class Traits, int kBox = 0>
__device__ __forceinline__ void load_boxes(typename Traits::Shared& shared, const typename Traits::Maps& maps,
                                           const GemmTile& tile, int team) {
  using Box = OutBox<Traits::kOutColumns, kBox>;
  const u32 ready = shared_address(&shared.ready[team][kBox]);
  if constexpr (Traits::kEpilogue.residual) {
    barrier_expect(ready, Box::kPitch * Traits::kRows);
    load_matrix(shared_address(shared.out) + Box::kFirst * 2 * Traits::kRows, Box::residual(maps),
                out_column<Traits>(tile) + Box::kFirst, tile.row, ready);
  } else {
    barrier_arrive(ready);
  }
  if constexpr (kBox + 1 < Traits::kBoxes) load_boxes<Traits, kBox + 1>(shared, maps, tile, team);
}

// the output out, each as soon as it is there.
template <class Traits, int kBox = 0>
__device__ __forceinline__ void store_boxes(typename Traits::Shared& shared, const typename Traits::Maps& maps,
                                            const GemmTile& tile, int turn) {
  using Box = OutBox<Traits::kOutColumns, kBox>;
  barrier_wait(shared_address(&shared.staged[kBox]), turn & 1);
  store_matrix(Box::out(maps), out_column<Traits>(tile) + Box::kFirst, tile.row,
               shared_address(shared.out) + Box::kFirst * 2 * Traits::kRows);
  commit_stores();
  if constexpr (kBox + 1 < Traits::kBoxes) store_boxes<Traits, kBox + 1>(shared, maps, tile, turn);
}

template <class Traits, int kBox = 0>
__device__ __forceinline__ void prefetch_boxes(const typename Traits::Maps& maps) {
  using Box = OutBox<Traits::kOutColumns, kBox>;
  if constexpr (Box::kColumns != OutBox<Traits::kOutColumns, kBox - 1>::kColumns) {
    prefetch_map(Box::out(maps));
    if constexpr (Traits::kEpilogue.residual) prefetch_map(Box::residual(maps));
  }
  if constexpr (kBox + 1 < Traits::kBoxes) prefetch_boxes<Traits, kBox + 1>(maps);
}

template <class Traits>
__device__ __forceinline__ void carry_output(typename Traits::Shared& shared, const typename Traits::Maps& maps,
                                             const GemmParams& p) {
  prefetch_boxes<Traits>(maps);
  wait_for_previous_grid();
  int turn = 0;
  for (GemmTiles<Traits> tiles(p); tiles.any(); tiles.advance(), ++turn) {
    const GemmTile tile = tiles.tile();
    load_boxes<Traits>(shared, maps, tile, turn % Traits::kTeams);
    store_boxes<Traits>(shared, maps, tile, turn);
    wait_stores_read();
  }
}

}  // namespace stof::cuda
