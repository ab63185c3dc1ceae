// SPDX-License-Identifier: Apache-2.0
// Arrivals on a barrier for a whole warp, whose lanes have all read what others write next.
#pragma once
#include "kernels/cuda/ptx.cuh"

namespace stof::cuda {

// One lane arrives for its warp. compute-sanitizer's racecheck takes an arrival to speak for the arriving lane alone
// and reports the reads of the others: units that define STOF_RACECHECK have every lane arrive.
#ifdef STOF_RACECHECK
constexpr bool kEveryLaneArrives = true;
#else
constexpr bool kEveryLaneArrives = false;
#endif
constexpr u32 kArrivalsOfWarp = kEveryLaneArrives ? 32 : 1;

// By a warp that has come together; `chosen` is true in one lane of it.
__device__ __forceinline__ void arrive_for_warp(u32 barrier, bool chosen) {
  if (kEveryLaneArrives || chosen) barrier_arrive(barrier);
}

}  // namespace stof::cuda
