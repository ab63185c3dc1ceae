// SPDX-License-Identifier: Apache-2.0
// What the draft tree of an item allows its queries. Behind what waits for the grid in front, which may have made it.
#pragma once
#include "kernels/shared/draft_trees.h"

namespace stof::cuda {

// Of an item with so many queries. One without any has none: there is no row to read.
__device__ __forceinline__ bool has_tree(const DraftTrees& trees, int queries) {
  return static_cast<unsigned>(queries - 1) < static_cast<unsigned>(trees.queries);
}

// Of 32 keys, the j-th of which is that of query `first` + j: those that a query of the item at `place` may see. Keys
// in front of the first query's are allowed, what lies behind the last one's is not said.
__device__ __forceinline__ unsigned tree_bits(const DraftTrees& trees, int place, int query, int first) {
  const unsigned* const words =
      trees.words + place * trees.item_stride + static_cast<long long>(query) * trees.row_stride;
  const int at = first >> 5, count = (trees.queries + 31) / 32;  // rounds towards minus infinity
  const auto word = [&](int i) { return i >= 0 && i < count ? __ldcg(words + i) : ~0u; };
  return __funnelshift_r(word(at), word(at + 1), first);
}
// Of 64 keys.
__device__ __forceinline__ unsigned long long wide_tree_bits(const DraftTrees& trees, int place, int query, int first) {
  return static_cast<unsigned long long>(tree_bits(trees, place, query, first + 32)) << 32 |
         tree_bits(trees, place, query, first);
}

}  // namespace stof::cuda
