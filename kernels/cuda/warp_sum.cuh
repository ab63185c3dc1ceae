// SPDX-License-Identifier: Apache-2.0
// Sums over a warp and over a CTA, in the same order each time; and the wait that begins a kernel of a chain.
#pragma once
#include "kernels/cuda/ptx.cuh"

namespace stof::cuda {

// The same in every lane.
template <class Float>
__device__ __forceinline__ Float warp_sum(Float x) {
#pragma unroll
  for (int step = 16; step; step >>= 1) x += __shfl_xor_sync(~0u, x, step);
  return x;
}

// The same in every thread; `partial` is shared memory for one value a warp, free again after the next barrier.
template <int kThreads, class Float>
__device__ __forceinline__ Float block_sum(Float x, Float (&partial)[kThreads / 32]) {
  x = warp_sum(x);
  __syncthreads();  // whoever still reads an earlier sum
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
  __syncthreads();
  Float sum = 0;
#pragma unroll
  for (int warp = 0; warp < kThreads / 32; ++warp) sum += partial[warp];
  return sum;
}

// What the kernel in front has written may be read from here on; the kernel behind may start. Compute capability 9.0
// and later can start a kernel before the one in front has ended; on others this is nothing.
__device__ __forceinline__ void follow_previous_grid() {
#if __CUDA_ARCH__ >= 900
  wait_for_previous_grid();
  allow_next_grid();
#endif
}

}  // namespace stof::cuda
