// SPDX-License-Identifier: Apache-2.0
// From the canonical layout to what one CUDA kernel reads. Needs no GPU.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "kernels/shared/decode_layout.h"
#include "kernels/shared/device_layout.h"
#include "src/layout/block_layout.h"

namespace stof::cuda {

struct StreamArrangement {
  int parts = 1;       // 64-row parts of a row block
  int tiles = 1;       // 64-key tiles of a step
  int most_steps = 0;  // row blocks with more are split; 0: never
  int covering = 0;    // the first steps, that have a key for as many rows as any: later ones compare with their scores
  int stacked_heads = 1;  // a part has rows of so many heads, one head's after the other's, for as many fewer positions
};

// The first slot of a split row block is 16 bits of its items.
inline constexpr int kMostSlots = 1 << 16, kMostSplits = 64;

// One mask of the layout, or all heads of an item (mixed_heads.h): a stretch of items, dearest first.
struct StreamGroup {
  int first_item = 0, item_count = 0;
  int slots = 0;  // partial results
};

struct ArrangedStream {
  std::vector<StreamItem> items;
  std::vector<int> steps;
  std::vector<std::uint32_t> words;
  std::vector<StreamGroup> groups;
};

// Needs block_q = 64 / stacked_heads * parts and block_kv = 64.
ArrangedStream arrange_stream(const BlockLayout& layout, const StreamArrangement& arrangement);

// Of each item the first of its steps, of step_ints numbers each; of one without steps zeros.
std::vector<int> first_steps(const ArrangedStream& arranged, int step_ints);

// The largest power of two, 64 at most, that divides where each tile begins, of tile_ints numbers each. Tiles from
// `keys` on fill steps up and have no keys.
int key_step_of(const ArrangedStream& arranged, int tile_ints, std::int64_t keys);

struct ArrangedBand {
  std::vector<BandRow> rows;  // [groups][row_blocks]
  std::vector<std::uint32_t> words;
  int key_step = 64;  // a power of two up to 64 that divides all key starts and the keys that are loaded at once
};

// Nothing when some row block's keys do not lie in a band of `keys` keys a part, part i's starting 64 i keys on. Needs
// block_q = 64 * parts and block_kv = 64.
std::optional<ArrangedBand> arrange_band(const BlockLayout& layout, int parts, int keys);

struct GatherArrangement {
  int pieces = 4;      // of 32 keys, in a unit
  int most_units = 0;  // row blocks with more are split; 0: never
};

// One mask of the layout: a stretch of items, dearest first.
struct GatherGroup {
  int first_item = 0, item_count = 0;
  int long_items = 0;  // the first ones, of more than one unit or a part of such
  int slots = 0;       // partial results
};

struct ArrangedGather {
  std::vector<GatherItem> items;
  std::vector<int> units;
  std::vector<std::uint32_t> words;
  std::vector<GatherGroup> groups;
};

// Needs block_q = block_kv = 64.
ArrangedGather arrange_gather(const BlockLayout& layout, const GatherArrangement& arrangement);

struct ArrangedDecode {
  std::vector<DecodeList> lists;  // [groups][2][blocks]
  std::vector<DecodeRun> runs;
  std::vector<std::uint64_t> words;
  int blocks = 0;
  int most_tiles = 0;  // of a list
};

// Needs block_q = 16, block_kv = key_step = 64. Lists of 32 rows are empty when there are not more queries than one.
// for_trees: tiles that a draft tree may cut, of keys behind the first row's position, have words even where all pairs
// are allowed.
ArrangedDecode arrange_decode(const BlockLayout& layout, std::int64_t queries, bool for_trees = false);

// Heads that share a key head and a mask; as many sets for every item of the mask, empty ones behind the others. No
// sets where they are the key heads, all of one mask.
struct HeadSets {
  int sets = 0;  // of an item
  int most_heads = 0;
  std::vector<DecodeHeads> heads;
};
HeadSets head_sets(std::span<const int> group_of, std::int64_t heads, std::int64_t heads_per_kv);

}  // namespace stof::cuda
