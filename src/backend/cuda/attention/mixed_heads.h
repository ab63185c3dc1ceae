// SPDX-License-Identifier: Apache-2.0
// Where heads have masks of their own: the lists of all heads of an item as one, so that one launch takes them all and
// who is done with a heavy head's row blocks goes on with a light one's.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "src/backend/cuda/attention/arrange.h"

namespace stof::cuda {

// Which mask each head has, [items][heads], and how an item's heads are taken: the heaviest first, in `turns` turns of
// `width` heads, all that are left in one more.
struct HeadMix {
  std::span<const int> group_of;
  int heads = 1;
  int width = 1, turns = 0;
};

// Whether the heads of some item have different masks.
bool heads_differ(std::span<const int> group_of, std::int64_t heads);

struct MixedHeads {
  std::vector<StreamItem> items;
  std::vector<StreamGroup> groups;  // of each item
};

// The steps stay where they are, once for each mask; what is repeated for every head is its row blocks, dearest first
// in each turn. Nothing where an item's row blocks are too many for one list, or have more parts than can be numbered.
std::optional<MixedHeads> mix_heads(const ArrangedStream& arranged, const HeadMix& mix);

}  // namespace stof::cuda
