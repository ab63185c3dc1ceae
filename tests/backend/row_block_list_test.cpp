// SPDX-License-Identifier: Apache-2.0
// Which launches have a list of the row blocks that there are: by sizes alone, nothing is launched.
#include "src/backend/cuda/attention/row_block_list.h"

#include <gtest/gtest.h>

namespace stof::cuda {
namespace {

struct Sized {
  const char* what;
  std::int64_t items, entries;
  int heads, stacked, width;
  bool mixed;
  std::size_t ints;
};

TEST(RowBlockList, HasRoomWhereHeadsAreSideBySideAndOneCtaSeesAll) {
  for (const Sized& sized : {
           Sized{"heads one by one", 48, 32, 12, 1, 1, false, 1 + 48 * 32},
           Sized{"all heads of an item", 48, 32, 12, 1, 12, false, 1 + 48 * 32},
           Sized{"several items", 48, 32, 12, 1, 30, false, 1 + 48 * 32},
           Sized{"some heads of an item", 48, 32, 12, 1, 11, false, 0},
           Sized{"two heads", 48, 32, 12, 1, 2, false, 0},
           Sized{"stacks of four", 48, 32, 12, 4, 3, false, 1 + 48 * 32},
           Sized{"some stacks of four", 48, 32, 12, 4, 2, false, 0},
           Sized{"mixed heads, whose slices are items", 48, 32, 12, 1, 2, true, 1 + 48 * 32},
           Sized{"one item", 1, 32, 12, 1, 12, false, 0},
           Sized{"two items", 2, 32, 12, 1, 12, false, 1 + 2 * 32},
           Sized{"as many items as fit", 1024, 16, 12, 1, 12, false, 1 + 1024 * 16},
           Sized{"an item too many", 1025, 8, 12, 1, 12, false, 0},
           Sized{"as many entries as fit", 8, 2048, 12, 1, 12, false, 1 + 8 * 2048},
           Sized{"an entry too many", 4, 2049, 12, 1, 12, false, 0},
           Sized{"places too many", 1024, 17, 12, 1, 12, false, 0},
       }) {
    ListedMask mask;
    mask.shape.heads = sized.heads;
    mask.stacked_heads = sized.stacked;
    mask.mixes_heads = sized.mixed;
    mask.sections.width = sized.width;
    EXPECT_EQ(list_ints(mask, mask.sections, sized.items, sized.entries), sized.ints) << sized.what;
  }
}

// 16 items of 1024 rows each, 8 heads, 16 row blocks of a head: 2048 row blocks.
struct Launched {
  std::int64_t rows = 16 * 1024;  // that there may be
  std::int64_t at_once = 100;
  int residues = 1;
  bool with_lengths = true, with_room = true;
  int row_blocks = 16;
  std::int64_t most_queries = 0;  // of a plan with more positions
  std::size_t room = 1 << 20;     // ints
};

bool pays(const Launched& launched) {
  ListedMask mask;
  mask.most_queries = launched.most_queries;
  const HeadRun heads;
  const int lengths[16] = {};
  int room[1] = {};
  Workspace workspace(room, {.list = launched.with_room ? std::size_t{1} : 0}, StreamHandle{});
  AttentionCall call{};
  call.shape.slices = 16 * 8, call.shape.heads = 8, call.shape.residues = launched.residues;
  call.shape.queries = call.shape.keys = 1024;
  call.shape.query_lengths = launched.with_lengths ? lengths : nullptr;
  StreamLayout layout{};
  layout.item_count = launched.row_blocks;
  const ItemRun items;
  const TiledLaunch launch{.mask = mask,
                           .boxes = {},
                           .call = call,
                           .heads = heads,
                           .item = 0,
                           .workspace = workspace,
                           .stream = {},
                           .rows = launched.rows,
                           .items = items,
                           .overlap_previous = true};
  return list_pays(launch, {layout, nullptr, mask.sections, 64, launched.room}, launched.at_once);
}

TEST(RowBlockList, PaysWhereMoreThanFourRoundsAreMissing) {
  EXPECT_FALSE(pays({.rows = 16 * 1024}));
  EXPECT_TRUE(pays({.rows = 16 * 1024 / 2}));  // 1024 missing, of 400
  EXPECT_TRUE(pays({.rows = 0}));
  EXPECT_FALSE(pays({.rows = 16 * 1024 / 2, .at_once = 256}));  // 1024 of 1024: four rounds, not more
  EXPECT_TRUE(pays({.rows = 16 * 1024 / 2, .at_once = 255}));
  EXPECT_FALSE(pays({.rows = 16 * 1024 * 3 / 4, .at_once = 128}));
  EXPECT_TRUE(pays({.rows = 16 * 1024 * 3 / 4, .at_once = 127}));
}

TEST(RowBlockList, IsOfCallsWithLengthsAndRoomAndOneResidueClass) {
  EXPECT_TRUE(pays({.rows = 64}));
  EXPECT_FALSE(pays({.rows = 64, .with_lengths = false}));
  EXPECT_FALSE(pays({.rows = 64, .with_room = false}));
  EXPECT_FALSE(pays({.rows = 64, .residues = 2}));
  EXPECT_FALSE(pays({.rows = 64, .row_blocks = 1025})) << "more places than one CTA looks at";
  EXPECT_TRUE(pays({.rows = 64, .room = 1 + 16 * 16}));
  EXPECT_FALSE(pays({.rows = 64, .room = 16 * 16})) << "no room for how many there are";
}

TEST(RowBlockList, KnowsHowManyRowsAnItemHasAtMost) {
  EXPECT_TRUE(pays({.rows = 16 * 512})) << "of 1024 each";
  EXPECT_FALSE(pays({.rows = 16 * 512, .most_queries = 512}));
}

}  // namespace
}  // namespace stof::cuda
