// SPDX-License-Identifier: Apache-2.0
// The kernel for few queries over many keys, in rows or in pages (kernels/cuda/decode_attention.cuh), as the contract
// wants it.
#pragma once
#include <vector>

#include "src/backend/contract.h"

namespace stof::cuda {

inline constexpr std::string_view kDecodeAttention = "decode_attention";
inline constexpr std::int64_t kMostDecoded = 16;  // queries of an item

Refusal decode_refuses(const AttentionProblem& problem, const DeviceCaps& caps);
std::vector<AttentionPlan> decode_candidates(const AttentionProblem& problem, const DeviceCaps& caps);
ArrangedMask arrange_decode_mask(const AttentionPlan& plan, PackedMask mask, const Device& device);
void run_decode(const AttentionPlan& plan, const ArrangedMask& mask, const stof::AttentionCall& call,
                const Device& device);
std::size_t decode_workspace_bytes(const ArrangedMask& arranged);

// How many items of so many tasks of at most so many tiles each the kernel can count in one launch.
std::int64_t decode_items_of_launch(std::int64_t tasks, std::int64_t most_tiles);

}  // namespace stof::cuda
