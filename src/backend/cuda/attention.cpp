// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention.h"

#include <algorithm>
#include <array>

#include "src/backend/cuda/attention/band.h"
#include "src/backend/cuda/attention/cost.h"
#include "src/backend/cuda/attention/decode.h"
#include "src/backend/cuda/attention/gather.h"
#include "src/backend/cuda/attention/instances.h"
#include "src/backend/cuda/attention/mma.h"
#include "src/backend/cuda/attention/rows.h"
#include "src/backend/cuda/attention/stream.h"

namespace stof::cuda {
namespace {

constexpr std::array<BlockSize, 4> kBlockSizes{{{64, 64}, {128, 64}, {192, 64}, {256, 64}}};

constexpr AttentionKernel kBand{.name = kBandAttention,
                                .refuses = band_refuses,
                                .candidates = band_candidates,
                                .arrange = arrange_band_mask,
                                .run = run_band,
                                .workspace_bytes = band_workspace_bytes,
                                .reads_pages = true,
                                .over_pages = band_over_pages,
                                .pages_us = band_pages_us,
                                .takes_spans = true};

// Every kernel reads pages, itself or by the mma kernel for masks that another one arranged; what neither takes goes to
// the row-wise one.
constexpr std::array<AttentionKernel, 6> kKernels{{
    kBand,
    {.name = kDecodeAttention,
     .refuses = decode_refuses,
     .candidates = decode_candidates,
     .arrange = arrange_decode_mask,
     .run = run_decode,
     .workspace_bytes = decode_workspace_bytes,
     .reads_pages = true,
     .reads_device_lengths = true,
     .few_queries = kMostDecoded,
     .takes_spans = true},
    {.name = kGatherAttention,
     .refuses = gather_refuses,
     .candidates = gather_candidates,
     .arrange = arrange_gather_mask,
     .run = run_gather,
     .workspace_bytes = gather_workspace_bytes,
     .reads_pages = true,
     .over_pages = [](const ArrangedMask&) { return OverPages::passes_on; }},
    {.name = kStreamAttention,
     .refuses = stream_refuses,
     .candidates = stream_candidates,
     .arrange = arrange_stream_mask,
     .run = run_stream,
     .workspace_bytes = stream_workspace_bytes,
     .reads_pages = true,
     .pages_us = stream_pages_us,
     .takes_chunks = true,
     .reserve = reserve_stream_mask,
     .update = update_stream_mask},
    {.name = kMmaAttention,
     .refuses = mma_refuses,
     .candidates = mma_candidates,
     .arrange = arrange_mma_mask,
     .run = run_mma,
     .workspace_bytes = mma_workspace_bytes,
     .reads_pages = true,
     .takes_chunks = true},
    {.name = kRowAttention,
     .refuses = rows_refuse,
     .candidates = row_candidates,
     .arrange = arrange_row_mask,
     .run = run_rows,
     .reads_pages = true},
}};

}  // namespace

std::span<const AttentionKernel> attention_kernels() { return kKernels; }

std::vector<BlockSize> attention_block_sizes(const AttentionShape& shape, std::int64_t alike_heads) {
  std::vector<BlockSize> sizes(kBlockSizes.begin(), kBlockSizes.end());
  const int heads = heads_to_stack(shape, alike_heads);
  if (heads == 1) return sizes;
  const auto head_dim = rounded_head_dim(std::span(stream_instances()), shape.head_dim);
  for (const StreamInstance& instance : stream_instances()) {
    if (!instance.stacked || instance.head_dim != head_dim) continue;
    const BlockSize size{64 / heads * instance.parts, 64};
    if (std::ranges::find(sizes, size.block_q, &BlockSize::block_q) == sizes.end()) sizes.push_back(size);
  }
  return sizes;
}

}  // namespace stof::cuda
