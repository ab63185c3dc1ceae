// SPDX-License-Identifier: Apache-2.0
// Instances of the kernel for sm_80 on every mask, and on tensors that start off 16 bytes.
#pragma once
#include "bench/cuda/problem.cuh"

namespace stof::bench {

void mma_checks();
// most_steps, section: as in StreamTuning.
void mma_64(const Problem& problem, int most_steps, int section);
void mma_128(const Problem& problem, int most_steps, int section);
// What tensors take that other kernels refuse: the same kernel on the mask as it was packed, and the row-wise one.
void mma_fallbacks(const Problem& problem);

}  // namespace stof::bench
