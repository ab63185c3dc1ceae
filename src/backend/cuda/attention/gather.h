// SPDX-License-Identifier: Apache-2.0
// The kernel for rows with few keys anywhere (kernels/cuda/gather_attention.cuh) as the contract wants it.
#pragma once
#include <vector>

#include "src/backend/contract.h"
#include "src/backend/cuda/attention/instances.h"

namespace stof::cuda {

inline constexpr std::string_view kGatherAttention = "gather_attention";

Refusal gather_refuses(const AttentionProblem& problem, const DeviceCaps& caps);
std::vector<AttentionPlan> gather_candidates(const AttentionProblem& problem, const DeviceCaps& caps);
ArrangedMask arrange_gather_mask(const AttentionPlan& plan, PackedMask mask, const Device& device);
void run_gather(const AttentionPlan& plan, const ArrangedMask& mask, const stof::AttentionCall& call,
                const Device& device);
// Of a part, when the heaviest row block has `splits` of them; 0: none is split.
int most_units_of(const AttentionProblem& problem, const GatherInstance& instance, int splits);
std::size_t gather_workspace_bytes(const ArrangedMask& arranged);

}  // namespace stof::cuda
