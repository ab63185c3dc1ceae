// SPDX-License-Identifier: Apache-2.0
// Keys of few rows as runs of tiles that are allowed alike: a dense or causal row is one run and a tile or two.
#include <algorithm>

#include "src/backend/cuda/attention/arrange.h"
#include "src/backend/cuda/attention/row_block_bits.h"
#include "src/base/error.h"
#include "src/base/narrow.h"
#include "src/layout/bitmap_pool.h"

namespace stof::cuda {
namespace {

constexpr int kPositions = DecodeList::kPositions, kRows = DecodeList::kRows, kTileKeys = DecodeList::kTileKeys;
constexpr int kFull = -1;

class DecodeArranger {
 public:
  DecodeArranger(const BlockLayout& layout, bool for_trees) : layout_(layout), for_trees_(for_trees) {
    STOF_CHECK(layout.format.block_q == kPositions && layout.format.block_kv == kTileKeys &&
               layout.format.key_step == kTileKeys);
  }

  ArrangedDecode run(bool with_wide) {
    out_.blocks = narrow<int>(layout_.row_blocks, "row blocks");
    for (int group = 0; group < layout_.groups; ++group) {
      for (std::int64_t block = 0; block < layout_.row_blocks; ++block) add_list(group, block, block);
      for (std::int64_t block = 0; block < layout_.row_blocks; ++block)
        if (with_wide) add_list(group, block, std::min(block + 1, layout_.row_blocks - 1));
        else out_.lists.push_back(empty_list());
    }
    out_.words = pool_.take();
    return std::move(out_);
  }

 private:
  DecodeList empty_list() const {
    return {.first_run = narrow<int>(out_.runs.size(), "runs of tiles"), .runs = 0, .tiles = 0, .last_key = -1};
  }

  // The rows of the first block and, when it is another one, of the last.
  void add_list(int group, std::int64_t first, std::int64_t last) {
    const RowBlockBits upper(layout_, group * layout_.row_blocks + first);
    const RowBlockBits lower(layout_, group * layout_.row_blocks + last);
    const bool two = first != last;
    DecodeList list = empty_list();
    auto a = upper.entries().begin(), b = two ? lower.entries().begin() : lower.entries().end();
    while (a != upper.entries().end() || b != lower.entries().end()) {
      const bool takes_a = a != upper.entries().end() && (b == lower.entries().end() || a->key_start <= b->key_start);
      const bool takes_b = b != lower.entries().end() && (a == upper.entries().end() || b->key_start <= a->key_start);
      const BlockEntry *of_a = takes_a ? &*a++ : nullptr, *of_b = takes_b ? &*b++ : nullptr;
      const bool full = of_a != nullptr && of_a->full() && (!two || (of_b != nullptr && of_b->full()));
      const int key = of_a != nullptr ? of_a->key_start : of_b->key_start;
      const bool has_words = !full || (for_trees_ && key + kTileKeys > layout_.first_position + first * kPositions);
      add_tile(list, key, has_words ? bitmap_of({&upper, of_a}, {&lower, of_b}) : kFull);
    }
    out_.most_tiles = std::max(out_.most_tiles, list.tiles);
    out_.lists.push_back(list);
  }

  struct Half {
    const RowBlockBits* bits;
    const BlockEntry* entry;  // null: no row has a key here
  };

  int bitmap_of(const Half& upper, const Half& lower) {
    std::array<std::uint64_t, kRows> words{};
    int row = 0;
    for (const Half& half : {upper, lower})
      for (int i = 0; i < kPositions; ++i, ++row)
        if (half.entry != nullptr) words[static_cast<std::size_t>(row)] = half.bits->bits(*half.entry, i);
    return pool_.intern(words);
  }

  void add_tile(DecodeList& list, int key, int bitmap) {
    DecodeRun* last = list.runs > 0 ? &out_.runs.back() : nullptr;
    if (last != nullptr && last->bitmap == bitmap && last->key_start + last->tiles * kTileKeys == key) ++last->tiles;
    else {
      out_.runs.push_back({.key_start = key, .tiles = 1, .bitmap = bitmap, .before = list.tiles});
      ++list.runs;
    }
    ++list.tiles;
    list.last_key = key;
  }

  const BlockLayout& layout_;
  const bool for_trees_;
  BitmapPool pool_{kRows};
  ArrangedDecode out_;
};

}  // namespace

ArrangedDecode arrange_decode(const BlockLayout& layout, std::int64_t queries, bool for_trees) {
  return DecodeArranger(layout, for_trees).run(queries > 1);
}

HeadSets head_sets(std::span<const int> group_of, std::int64_t heads, std::int64_t heads_per_kv) {
  HeadSets found;
  std::vector<std::vector<DecodeHeads>> of_items;
  for (std::size_t item = 0; item < group_of.size(); item += static_cast<std::size_t>(heads)) {
    std::vector<DecodeHeads>& sets = of_items.emplace_back();
    for (std::int64_t head = 0; head < heads; ++head) {
      const int group = group_of[item + static_cast<std::size_t>(head)];
      if (head % heads_per_kv == 0 || sets.back().group != group)
        sets.push_back({.first = narrow<int>(head, "heads"), .count = 0, .group = group});
      ++sets.back().count;
      found.most_heads = std::max(found.most_heads, sets.back().count);
    }
    found.sets = std::max(found.sets, static_cast<int>(sets.size()));
  }
  if (std::all_of(group_of.begin(), group_of.end(), [](int group) { return group == 0; })) return found;
  for (std::vector<DecodeHeads>& sets : of_items) {
    sets.resize(static_cast<std::size_t>(found.sets), DecodeHeads{});
    found.heads.insert(found.heads.end(), sets.begin(), sets.end());
  }
  return found;
}

}  // namespace stof::cuda
