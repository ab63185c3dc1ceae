// SPDX-License-Identifier: Apache-2.0
// The kernel that needs no more than sm_80 and no alignment (kernels/cuda/mma_attention.cuh) as the contract wants it.
#pragma once
#include <vector>

#include "src/backend/contract.h"

namespace stof::cuda {

inline constexpr std::string_view kMmaAttention = "mma_attention";

Refusal mma_refuses(const AttentionProblem& problem, const DeviceCaps& caps);
std::vector<AttentionPlan> mma_candidates(const AttentionProblem& problem, const DeviceCaps& caps);
ArrangedMask arrange_mma_mask(const AttentionPlan& plan, PackedMask mask, const Device& device);
void run_mma(const AttentionPlan& plan, const ArrangedMask& mask, const stof::AttentionCall& call,
             const Device& device);
std::size_t mma_workspace_bytes(const ArrangedMask& arranged);

}  // namespace stof::cuda
