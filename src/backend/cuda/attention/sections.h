// SPDX-License-Identifier: Apache-2.0
// How many slices go through a list side by side.
#pragma once
#include <algorithm>

#include "stof/attention.h"

namespace stof::cuda {

struct ListLoad {
  double tiles = 0;        // of 64 keys, of a row block on average
  std::int64_t items = 0;  // of a slice
  std::int64_t teams = 0;  // row blocks that the device works on at once
};

// Dense lists read all of a slice's keys again and again: as many slices side by side as the L2 holds. Sparse ones go
// slice by slice, unless there is so little to do that all must run at once.
inline int section_of(const AttentionShape& shape, const ListLoad& load) {
  constexpr std::int64_t kSectionBytes = 25'000'000;  // keys and values: what stays in 50 MB beside everything else
  const std::int64_t slices = shape.batch * shape.heads;
  const std::int64_t slice_bytes =
      std::max<std::int64_t>(1, 4 * shape.keys * shape.head_dim * shape.kv_heads / shape.heads);
  const std::int64_t in_cache = std::clamp<std::int64_t>(kSectionBytes / slice_bytes, 1, slices);
  const bool dense = 4 * 64 * load.tiles > static_cast<double>(shape.keys);
  const bool little = load.items * slices < 16 * load.teams;
  return static_cast<int>(dense || little ? in_cache : 1);
}

}  // namespace stof::cuda
