// SPDX-License-Identifier: Apache-2.0
// A checked call, by one plan.
#pragma once
#include "src/attention/planned.h"

namespace stof {

// Items as the plan has positions for; of a plan with rest, that lie evenly (src/backend/even_items.h).
void run_plan(const Planned& planned, const AttentionCall& call, const Device& device);

// Of AttentionCall::workspace, of a plan for calls of this shape.
std::size_t workspace_bytes_of(const Planned& planned, const AttentionShape& shape, const Device& device);

}  // namespace stof
