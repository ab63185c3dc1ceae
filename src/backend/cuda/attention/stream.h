// SPDX-License-Identifier: Apache-2.0
// The kernel for lists of key tiles (kernels/cuda/stream_attention.cuh) as the contract wants it.
#pragma once
#include <vector>

#include "src/backend/contract.h"

namespace stof::cuda {

inline constexpr std::string_view kStreamAttention = "stream_attention";

Refusal stream_refuses(const AttentionProblem& problem, const DeviceCaps& caps);
std::vector<AttentionPlan> stream_candidates(const AttentionProblem& problem, const DeviceCaps& caps);
ArrangedMask arrange_stream_mask(const AttentionPlan& plan, PackedMask mask, const Device& device);
void run_stream(const AttentionPlan& plan, const ArrangedMask& mask, const stof::AttentionCall& call,
                const Device& device);
// The same for a mask that is made on the device, whose launches are one for all heads.
ArrangedMask reserve_stream_mask(const AttentionPlan& plan, const TableProblem& problem, const Device& device);
void update_stream_mask(const ArrangedMask& mask, const TableContents& contents, const Device& device);
double stream_pages_us(const AttentionPlan& plan);
std::size_t stream_workspace_bytes(const ArrangedMask& arranged);

}  // namespace stof::cuda
