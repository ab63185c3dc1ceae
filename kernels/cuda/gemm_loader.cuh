// SPDX-License-Identifier: Apache-2.0
// Two of the four warps of the GEMM kernel that do not multiply: one loads x and the weight, one brings the residual
// and takes the output away.
#pragma once
#include "kernels/cuda/gemm_traits.cuh"

namespace stof::cuda {

// Of one warp, which is whole in its loops: so their addresses are uniform and cost no vector registers.
template <class Traits>
struct GemmLoader {
  typename Traits::Shared& shared;
  const GemmMaps& maps;
  const GemmParams& p;
  GemmTiles<Traits> tiles;
  GemmSteps steps;
  GemmTile first;
  int ahead;  // steps that the ring holds before a multiplying warp has let go of one

  __device__ __forceinline__ GemmLoader(typename Traits::Shared& memory, const GemmMaps& matrices,
                                        const GemmParams& params)
      : shared(memory), maps(matrices), p(params), tiles(params), steps(steps_of<Traits>(params, tiles.rank)) {
    first = tiles.tile();
    ahead = tiles.any() ? min(steps.count, Traits::kStages) : 0;
  }

  // The weight does not depend on the kernel in front: what the ring holds of it is asked for at once.
  __device__ __forceinline__ void load_first_weights() const {
    if (!elected()) return;
    for (int step = 0; step < ahead; ++step) load_w(static_cast<u32>(step), first, step);
  }

  __device__ __forceinline__ void run() {
    if (elected()) {
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

 private:
  __device__ __forceinline__ void load_w(u32 stage, const GemmTile& tile, int step) const {
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
  }
  __device__ __forceinline__ void load_x(u32 stage, const GemmTile& tile, int step) const {
    const u32 target = shared_address(shared.x[stage]), barrier = shared_address(&shared.full[stage]);
    const int column = (steps.first + step) * kBoxColumns;
    if constexpr (Traits::kReadsXOnce) load_matrix(target, maps.x, column, tile.row, barrier, cache_policy(kReadOnce));
    else load_matrix(target, maps.x, column, tile.row, barrier);
  }
};

// By a whole warp of every CTA: lines of the next matmul's weight come to the L2 while this one multiplies.
__device__ __forceinline__ void ask_for_next_weight(const GemmParams& p) {
  const auto* weight = static_cast<const char*>(p.next_weight);
  const int first = static_cast<int>(blockIdx.x) * p.next_lines_each, lane = static_cast<int>(threadIdx.x) % 32;
  const int end = min(first + p.next_lines_each, p.next_lines);
  for (int line = first + lane; line < end; line += 32)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(weight + 128LL * line));
  __syncwarp();
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
                                            const GemmTile& tile, int turn, int use) {
  using Box = OutBox<Traits::kOutColumns, kBox>;
  const int column = out_column<Traits>(tile) + Box::kFirst;
  const u32 source = shared_address(shared.out) + Box::kFirst * 2 * Traits::kRows;
  barrier_wait(shared_address(&shared.staged[kBox]), turn & 1);
  if (use == kUnknownUse) store_matrix(Box::out(maps), column, tile.row, source);
  else store_matrix(Box::out(maps), column, tile.row, source, cache_policy(use));
  commit_stores();
  if constexpr (kBox + 1 < Traits::kBoxes) store_boxes<Traits, kBox + 1>(shared, maps, tile, turn, use);
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
    store_boxes<Traits>(shared, maps, tile, turn, p.out_use);
    wait_stores_read();
  }
}

}  // namespace stof::cuda
