// SPDX-License-Identifier: Apache-2.0
// The attention kernels of CUDA, for backend.cpp.
#pragma once
#include <span>

#include "src/backend/contract.h"

namespace stof::cuda {

std::span<const AttentionKernel> attention_kernels();
// Row-blocks of 1 to 4 warpgroups of 64 rows, and of as many positions as these have where heads may be stacked: what
// the statistics of a mask are measured at.
std::vector<BlockSize> attention_block_sizes(const AttentionShape& shape, std::int64_t alike_heads);

}  // namespace stof::cuda
