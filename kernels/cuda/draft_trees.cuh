// SPDX-License-Identifier: Apache-2.0
// What the draft tree of an item allows its queries. Behind what waits for the grid in front, which may have made it.
#pragma once
#include "kernels/shared/draft_trees.h"

namespace stof::cuda {

// Of an item with so many queries. One without any has none: there is no row to read.
__device__ __forceinline__ bool has_tree(const DraftTrees& trees, int queries) {
  return static_cast<unsigned>(queries - 1) < static_cast<unsigned>(trees.queries);
}

// The keys that all its rows are allowed as far as the tree goes; `keys` where there is no tree.
__device__ __forceinline__ int keys_before_tree(const DraftTrees& trees, int queries, int keys) {
  return has_tree(trees, queries) ? keys - queries : keys;
}

// Of 64 keys, the j-th of which is that of query `first` + j: those that a query of the item at `place` may see. Keys
// in front of the first query's are allowed, what lies behind the last one's is not said.
__device__ __forceinline__ unsigned long long tree_bits(const DraftTrees& trees, int place, int query, int first) {
  const unsigned* const words =
      trees.words + place * trees.item_stride + static_cast<long long>(query) * trees.row_stride;
  const int word = first >> 5, count = (trees.queries + 31) / 32;  // rounds towards minus infinity
  unsigned three[3];
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    const int at = word + i;
    three[i] = at >= 0 && at < count ? __ldcg(words + at) : ~0u;
  }
  const unsigned low = __funnelshift_r(three[0], three[1], first), high = __funnelshift_r(three[1], three[2], first);
  return static_cast<unsigned long long>(high) << 32 | low;
}

}  // namespace stof::cuda
