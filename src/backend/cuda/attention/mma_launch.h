// SPDX-License-Identifier: Apache-2.0
// Launches of kernels/cuda/mma_attention.cuh: on a mask arranged for it, and on one that was packed for another kernel.
#pragma once
#include "src/backend/cuda/attention/instances.h"
#include "src/backend/cuda/attention/tiled_mask.h"

namespace stof::cuda {

// Everything but the mask.
MmaParams mma_params(const TiledLaunch& launch);
void launch_mma(const InstanceKernel& kernel, const TiledLaunch& launch, std::int64_t grid, MmaParams params);

// On TiledMask::blocks, whose row blocks are multiples of 64 rows. entry: for keys in rows or in pages.
const InstanceKernel& packed_mma_kernel(const Gpu& gpu, DType dtype, std::int64_t head_dim, std::string_view entry);
void launch_packed_mma(const TiledLaunch& launch);

}  // namespace stof::cuda
