// SPDX-License-Identifier: Apache-2.0
// The ring of a decode CTA: half of its threads copy tiles into its stages, the other half add them up.
#pragma once
#include "kernels/cuda/arrivals.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/ring.cuh"

namespace stof::cuda {

// In the ring, beside a tile: where it starts, and its bitmap or -1.
struct LoadedTile {
  int key_start, bitmap;
};

// Once what this thread has copied so far is there.
__device__ __forceinline__ void arrive_when_copied(u32 barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void wait_for(u32 barrier, u32 parity) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  barrier_wait(barrier, parity);
#else
  u32 done;
  do {
    asm volatile(
        "{\n.reg .pred done;\nmbarrier.test_wait.parity.shared.b64 done, [%1], %2;\nselp.u32 %0, 1, 0, done;\n}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (!done);
#endif
}

// Where the pieces of 16 bytes of a tile's 64 rows lie: in boxes of 64 columns, as wgmma.cuh has them.
template <int kHeadDim>
struct TileRows {
  static constexpr u32 kBoxBytes = 64 * kRowBytes;
  using Box = SwizzledRows<kBoxColumns>;
  static __device__ __forceinline__ u32 offset(int row, int piece) {
    return static_cast<u32>(piece / 8) * kBoxBytes + Box::offset(row, piece % 8);
  }
  // From a row's piece 0 or 1 to the one `pieces`, an even constant, behind it.
  static __device__ __forceinline__ u32 along(u32 address, int pieces) {
    return Box::along(address, pieces % 8) + static_cast<u32>(pieces / 8) * kBoxBytes;
  }
};

// A tile's keys and its values have barriers of their own, so that scores are made while values are on their way. The
// barriers of a stage go from phase to phase together: who reads a tile waits for its keys, then for its values, and
// gives the stage back once it needs neither; nothing is copied there before.
// kReaders: warps that read a tile.
template <int kStages, int kReaders>
struct DecodeRing {
  static constexpr int kLoaders = 128;  // threads
  u64 keys[kStages], values[kStages], empty[kStages];
  LoadedTile tiles[kStages];

  // By one thread; a barrier of the CTA makes it everybody's.
  __device__ __forceinline__ void make() {
#pragma unroll
    for (int i = 0; i < kStages; ++i) {
      barrier_init(shared_address(&keys[i]), kLoaders + 1);  // whose copies are there, and one for the tile's facts
      barrier_init(shared_address(&values[i]), kLoaders);
      barrier_init(shared_address(&empty[i]), kReaders * kArrivalsOfWarp);
    }
  }
  __device__ __forceinline__ void wait_until_empty(const RingPlace<kStages>& at) {
    wait_for(shared_address(&empty[at.stage]), at.parity ^ 1);
  }
  // By each loader, after its copies of keys and of mask words; then after those of values.
  __device__ __forceinline__ void bring_keys(u32 stage, bool first, const LoadedTile& tile) {
    const u32 barrier = shared_address(&keys[stage]);
    if (first) {
      tiles[stage] = tile;
      barrier_arrive(barrier);
    }
    arrive_when_copied(barrier);
  }
  __device__ __forceinline__ void bring_values(u32 stage) { arrive_when_copied(shared_address(&values[stage])); }
  __device__ __forceinline__ void wait_for_keys(const RingPlace<kStages>& at) {
    wait_for(shared_address(&keys[at.stage]), at.parity);
  }
  __device__ __forceinline__ void wait_for_values(const RingPlace<kStages>& at) {
    wait_for(shared_address(&values[at.stage]), at.parity);
  }
  // By each reading warp.
  __device__ __forceinline__ void have_read(u32 stage, int lane) {
    __syncwarp();
    arrive_for_warp(shared_address(&empty[stage]), lane == 0);
  }
};

}  // namespace stof::cuda
