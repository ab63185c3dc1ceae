// SPDX-License-Identifier: Apache-2.0
// Attention of few rows over few keys: how a CTA has them, and what a launch reads.
#pragma once
#include "kernels/shared/row_layout.h"

namespace stof::cuda {

struct FewKeysGrid {
  static constexpr int kWarps = 8, kThreads = 32 * kWarps;
  static constexpr int kGroup = 16;      // keys that a warp takes at a time
  static constexpr int kSlab = 8;        // rows of q that are multiplied together
  static constexpr int kMostSlabs = 2;   // of a CTA
  static constexpr int kMostRanks = 8;   // CTAs, a cluster, that share keys
  static constexpr int kMostStages = 2;  // groups of a warp that are on their way
  static constexpr int kPadding = 4;     // floats behind a row of sums: those of two rows then lie in other banks
  // Bytes for each column of a head: k and v of a group; a row of q; a row of a result.
  static constexpr int kGroupBytes = 4 * kGroup, kQueryBytes = 2, kResultBytes = 4;
};

// Of a row at a position: keys [0, prefix_end) and [begin, end), as RowSpan of src/layout/row_spans.h has it.
struct KeySpan {
  int prefix_end, begin, end, unused;
};

// One query of each item; a CTA has the heads of q for one of k, up to kSlab or twice as many.
struct FewKeysParams {
  static constexpr int kMostItems = 64;  // given by value: parameters end at 4 KB
  const void *q, *k, *v;
  void* out;
  float* lse;  // or null
  RowStride q_stride, k_stride, v_stride, out_stride, lse_stride;
  int heads_per_kv, head_dim;
  int stages, warp_bytes;  // of shared memory, of a warp's groups and then its sums: a multiple of 128
  float scale_log2, cap_log2;
  int first_position, positions;  // of the spans
  const KeySpan* spans;
  PageTable pages;
  const int* key_lengths;    // [items of the call] in the memory of the device, or null: what items say
  const RowItem* item_list;  // in the memory of the device, or null: `items`
  RowItem items[kMostItems];
};
static_assert(sizeof(FewKeysParams) <= 4096, "parameters of a kernel");

}  // namespace stof::cuda
