// SPDX-License-Identifier: Apache-2.0
// Lists of tiles for decoding say the same as the mask, for 16 rows and for 32; sets of heads that share keys and mask.
#include <gtest/gtest.h>

#include "src/backend/cuda/attention/arrange.h"
#include "src/backend/cuda/attention/decode.h"
#include "src/layout/pack.h"
#include "stof/error.h"
#include "tests/mask/random_mask.h"

namespace stof::cuda {
namespace {

constexpr BlockFormat kFormat{.block_q = 16, .block_kv = 64, .key_step = 64};

BlockLayout packed(const Mask& mask, const MaskExtent& extent) { return pack_blocks(BoundMask(mask, extent), kFormat); }

// Whether row `row` of a list allows the key; keys in no tile are forbidden.
bool allows(const ArrangedDecode& arranged, const DecodeList& list, int row, int key) {
  for (int i = list.first_run; i < list.first_run + list.runs; ++i) {
    const DecodeRun& run = arranged.runs[static_cast<std::size_t>(i)];
    if (key < run.key_start || key >= run.key_start + 64 * run.tiles) continue;
    const auto word = static_cast<std::size_t>(run.bitmap * DecodeList::kRows + row);
    return run.bitmap < 0 || (arranged.words[word] >> (key % 64) & 1) != 0;
  }
  return false;
}

// Runs ascend, count their tiles, and none could be longer.
void expect_valid(const ArrangedDecode& arranged, const DecodeList& list) {
  int tiles = 0, last_key = -1;
  for (int i = list.first_run; i < list.first_run + list.runs; ++i) {
    const DecodeRun& run = arranged.runs[static_cast<std::size_t>(i)];
    EXPECT_EQ(run.key_start % 64, 0);
    EXPECT_GT(run.tiles, 0);
    EXPECT_EQ(run.before, tiles);
    EXPECT_GT(run.key_start, last_key);
    if (i > list.first_run) {
      const DecodeRun& before = arranged.runs[static_cast<std::size_t>(i) - 1];
      EXPECT_FALSE(before.bitmap == run.bitmap && before.key_start + 64 * before.tiles == run.key_start);
    }
    tiles += run.tiles;
    last_key = run.key_start + 64 * (run.tiles - 1);
  }
  EXPECT_EQ(list.tiles, tiles);
  EXPECT_EQ(list.last_key, last_key);
  EXPECT_LE(list.tiles, arranged.most_tiles);
}

// Of every tile with keys that rows of the list may have queries' keys among.
void expect_words(const ArrangedDecode& arranged, const DecodeList& list, std::int64_t position) {
  for (int i = list.first_run; i < list.first_run + list.runs; ++i) {
    const DecodeRun& run = arranged.runs[static_cast<std::size_t>(i)];
    const bool behind = run.key_start + 64 * run.tiles > position;
    EXPECT_TRUE(run.bitmap >= 0 || !behind) << "keys from " << run.key_start;
  }
}

void expect_lists(const Mask& mask, const MaskExtent& extent, bool for_trees) {
  const BlockLayout layout = packed(mask, extent);
  const BoundMask bound(mask, extent);
  const Tensor dense = unpack(layout);
  const ArrangedDecode arranged = arrange_decode(layout, extent.queries, for_trees);
  ASSERT_EQ(arranged.lists.size(), static_cast<std::size_t>(layout.groups * 2 * layout.row_blocks));
  for (int group = 0; group < layout.groups; ++group)
    for (int wide = 0; wide < (extent.queries > 1 ? 2 : 1); ++wide)
      for (int block = 0; block < arranged.blocks; ++block) {
        const DecodeList& list = arranged.lists[static_cast<std::size_t>((group * 2 + wide) * arranged.blocks + block)];
        expect_valid(arranged, list);
        if (for_trees) expect_words(arranged, list, layout.first_position + 16 * block);
        for (int row = 0; row < 16 * (wide + 1); ++row) {
          const std::int64_t query = layout.first_position + 16 * block + row - layout.positions.begin;
          if (query < 0 || query >= extent.queries) continue;
          for (int key = 0; key < extent.keys; ++key) {
            const std::int64_t cell = (group * extent.queries + query) * extent.keys + key;
            ASSERT_EQ(allows(arranged, list, row, key), dense.as<std::uint8_t>()[cell] != 0)
                << mask.text() << " group " << group << " query " << query << " key " << key;
          }
        }
      }
}

TEST(ArrangeDecode, SaysTheSameAsTheMask) {
  for (const char* text :
       {"all", "!all", "causal", "window(30) | sink(3)", "strided(3)", "heads(0: causal, *: window(9))"})
    for (const auto& [queries, keys] : {std::pair{1, 200}, {5, 333}, {64, 64}, {20, 7}})
      for (const bool for_trees : {false, true})
        expect_lists(parse(text), {.queries = queries, .keys = keys, .heads = 2}, for_trees);
}

TEST(ArrangeDecode, SaysTheSameAsRandomMasks) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    const MaskExtent extent{.queries = 1 + seed % 17, .keys = 17 + 13 * seed, .heads = 2};
    try {
      expect_lists(RandomMask(seed, extent, true).expression(2), extent, seed % 2 == 0);
    } catch (const Error&) {  // the mask does not fit these lengths
    }
  }
}

TEST(ArrangeDecode, ADenseRowIsARunHoweverLong) {
  const ArrangedDecode dense = arrange_decode(packed(all(), {.queries = 1, .keys = 64 * 4096}), 1);
  ASSERT_EQ(dense.runs.size(), 1u);
  EXPECT_EQ(dense.runs[0].tiles, 4096);
  EXPECT_EQ(dense.most_tiles, 4096);
  const ArrangedDecode window =
      arrange_decode(packed(parse("sink(4) | window(4096)"), {.queries = 1, .keys = 131072}), 1);
  EXPECT_EQ(window.most_tiles, 1 + 4096 / 64 + 1);
}

TEST(DecodeItems, AreAsManyAsCanBeCounted) {
  EXPECT_EQ(decode_items_of_launch(8, 2048), DecodeParams::kMostTasks / 8);
  // 2,048 items of 8 key heads and 8.4 million keys each have 2^31 units.
  const std::int64_t most = decode_items_of_launch(8, 131072);
  EXPECT_LE(most * 8 * (131072 + DecodeParams::kMostStart), std::int64_t{DecodeParams::kMostUnits});
  EXPECT_GT((most + 1) * 8 * (131072 + DecodeParams::kMostStart), std::int64_t{DecodeParams::kMostUnits});
  EXPECT_EQ(decode_items_of_launch(DecodeParams::kMostTasks + 1, 1), 0);
  EXPECT_EQ(decode_items_of_launch(DecodeParams::kMostTasks, 131072), 0);
}

TEST(HeadSets, AreKeyHeadsWhereOneMaskServesAll) {
  const HeadSets sets = head_sets(std::vector<int>(16, 0), 8, 4);
  EXPECT_EQ(sets.sets, 2);
  EXPECT_EQ(sets.most_heads, 4);
  EXPECT_TRUE(sets.heads.empty());
}

TEST(HeadSets, EndWhereTheMaskChangesAndAreAsManyForEveryItem) {
  const std::vector<int> groups{0, 0, 1, 1, 1, 1, 2, 2, /* item 1 */ 1, 1, 1, 1, 1, 1, 1, 1};
  const HeadSets sets = head_sets(groups, 8, 4);
  EXPECT_EQ(sets.sets, 4);
  EXPECT_EQ(sets.most_heads, 4);
  const auto is = [&](std::size_t i, int first, int count, int group) {
    const DecodeHeads& found = sets.heads[i];
    EXPECT_TRUE(found.first == first && found.count == count && found.group == group) << i;
  };
  ASSERT_EQ(sets.heads.size(), 8u);
  is(0, 0, 2, 0), is(1, 2, 2, 1), is(2, 4, 2, 1), is(3, 6, 2, 2);
  is(4, 0, 4, 1), is(5, 4, 4, 1), is(6, 0, 0, 0), is(7, 0, 0, 0);
}

}  // namespace
}  // namespace stof::cuda
