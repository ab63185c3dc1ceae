// SPDX-License-Identifier: Apache-2.0
// The block-wise kernel as the contract wants it.
#pragma once
#include <vector>

#include "src/backend/contract.h"

namespace stof::cpu {

inline constexpr std::string_view kBlockAttention = "block_attention";

Refusal blocks_refuse(const AttentionProblem& problem, const DeviceCaps& caps);
std::vector<AttentionPlan> block_candidates(const AttentionProblem& problem, const DeviceCaps& caps);
ArrangedMask arrange_blocks(const AttentionPlan& plan, PackedMask mask, const Device& device);
void run_blocks(const AttentionPlan& plan, const ArrangedMask& mask, const AttentionCall& call, const Device& device);

}  // namespace stof::cpu
