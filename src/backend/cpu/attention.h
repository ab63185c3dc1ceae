// SPDX-License-Identifier: Apache-2.0
// The attention kernels of the CPU, for backend.cpp.
#pragma once
#include <span>

#include "src/backend/contract.h"

namespace stof::cpu {

std::span<const AttentionKernel> attention_kernels();
// Block sizes that the kernels are tuned for: what the statistics of a mask are measured at.
std::span<const BlockSize> attention_block_sizes();

}  // namespace stof::cpu
