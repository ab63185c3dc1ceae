// SPDX-License-Identifier: Apache-2.0
// The attention kernels of the CPU, for backend.cpp.
#pragma once
#include <span>

#include "src/backend/contract.h"

namespace stof::cpu {

std::span<const AttentionKernel> attention_kernels();
// Block sizes that the kernels are tuned for: what the statistics of a mask are measured at.
std::vector<BlockSize> attention_block_sizes(const AttentionShape& shape, std::int64_t alike_heads);

}  // namespace stof::cpu
