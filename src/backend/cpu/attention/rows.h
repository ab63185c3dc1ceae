// SPDX-License-Identifier: Apache-2.0
// The row-wise kernel as the contract wants it.
#pragma once
#include <vector>

#include "src/backend/contract.h"

namespace stof::cpu {

inline constexpr std::string_view kRowAttention = "row_attention";

Refusal rows_refuse(const AttentionProblem& problem, const DeviceCaps& caps);
std::vector<AttentionPlan> row_candidates(const AttentionProblem& problem, const DeviceCaps& caps);
ArrangedMask arrange_rows(const AttentionPlan& plan, PackedMask mask, const Device& device);
void run_rows(const AttentionPlan& plan, const ArrangedMask& mask, const AttentionCall& call, const Device& device);

}  // namespace stof::cpu
