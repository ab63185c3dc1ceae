// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cpu/attention.h"

#include <array>

#include "src/backend/cpu/attention/blocks.h"
#include "src/backend/cpu/attention/cost.h"
#include "src/backend/cpu/attention/rows.h"

namespace stof::cpu {
namespace {

constexpr std::array<AttentionKernel, 2> kKernels{{
    {.name = kBlockAttention,
     .refuses = blocks_refuse,
     .candidates = block_candidates,
     .arrange = arrange_blocks,
     .run = run_blocks},
    {.name = kRowAttention,
     .refuses = rows_refuse,
     .candidates = row_candidates,
     .arrange = arrange_rows,
     .run = run_rows},
}};

}  // namespace

std::span<const AttentionKernel> attention_kernels() { return kKernels; }
std::vector<BlockSize> attention_block_sizes(const AttentionShape&, std::int64_t) {
  return {kBlockSizes.begin(), kBlockSizes.end()};
}

}  // namespace stof::cpu
