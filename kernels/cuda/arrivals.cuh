// SPDX-License-Identifier: Apache-2.0
// Arrivals on a barrier for a whole warp, whose lanes have all read what others write next, and what racecheck needs.
#pragma once
#include "kernels/cuda/ptx.cuh"

namespace stof::cuda {

// compute-sanitizer's racecheck does not see all that is in order here (docs/kernels/attention-log.md). Where
// STOF_RACECHECK is defined in front of this file the kernels order the same accesses in a way that it does see.
#ifdef STOF_RACECHECK
constexpr bool kForRacecheck = true;
#else
constexpr bool kForRacecheck = false;
#endif

// One lane arrives for its warp. racecheck takes an arrival to speak for the arriving lane alone and reports the reads
// of the others: for it every lane arrives.
constexpr u32 kArrivalsOfWarp = kForRacecheck ? 32 : 1;

// By a warp that has come together; `chosen` is true in one lane of it.
__device__ __forceinline__ void arrive_for_warp(u32 barrier, bool chosen) {
  if (kForRacecheck || chosen) barrier_arrive(barrier);
}

// Warpgroups meet: what any of them wrote before is seen by all of them behind. racecheck at times misses that for a
// warp that one named barrier has let go, and not with two.
template <int kThreads>
__device__ __forceinline__ void meet(int id) {
  named_barrier<kThreads>(id);
  if constexpr (kForRacecheck) named_barrier<kThreads>(id);
}

}  // namespace stof::cuda
