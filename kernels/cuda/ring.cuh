// SPDX-License-Identifier: Apache-2.0
// Where a loader or a consumer is in a ring of stages.
#pragma once
#include "kernels/cuda/ptx.cuh"

namespace stof::cuda {

// A ring of stages, and how often it went round.
template <int kStages>
struct RingPlace {
  u32 stage = 0, parity = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == kStages) stage = 0, parity ^= 1;
  }
  __device__ __forceinline__ void advance(u32 steps) {
    stage += steps;
    parity ^= stage / kStages & 1;
    stage %= kStages;
  }
};

}  // namespace stof::cuda
