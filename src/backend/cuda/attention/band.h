// SPDX-License-Identifier: Apache-2.0
// The kernel for rows with few keys (kernels/cuda/band_attention.cuh) as the contract wants it.
#pragma once
#include <vector>

#include "src/backend/contract.h"

namespace stof::cuda {

inline constexpr std::string_view kBandAttention = "band_attention";

Refusal band_refuses(const AttentionProblem& problem, const DeviceCaps& caps);
std::vector<AttentionPlan> band_candidates(const AttentionProblem& problem, const DeviceCaps& caps);
ArrangedMask arrange_band_mask(const AttentionPlan& plan, PackedMask mask, const Device& device);
void run_band(const AttentionPlan& plan, const ArrangedMask& mask, const stof::AttentionCall& call,
              const Device& device);
std::size_t band_workspace_bytes(const ArrangedMask& arranged);
// Passed on where a copy could bring keys of two pages; late where copies would take longer than the rest.
OverPages band_over_pages(const ArrangedMask& arranged);
double band_pages_us(const AttentionPlan& plan);

}  // namespace stof::cuda
