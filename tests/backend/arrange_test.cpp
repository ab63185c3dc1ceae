// SPDX-License-Identifier: Apache-2.0
// What the CUDA kernels read says the same as the mask, pair by pair, for every group: the arrays are read back here by
// the rules of kernels/shared/device_layout.h and kernels/cuda/wgmma.cuh.
#include "src/backend/cuda/attention/arrange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "src/backend/cuda/attention/band.h"
#include "src/layout/band_widths.h"
#include "src/layout/key_pieces.h"
#include "src/layout/pack.h"
#include "src/mask/mask_bands.h"
#include "tests/backend/arranged_bits.h"
#include "tests/mask/random_mask.h"

namespace stof::cuda {
namespace {

// [queries][keys] of one group; -1 where no tile says anything.
class Readback {
 public:
  explicit Readback(const BlockLayout& layout)
      : layout_(layout), seen_(static_cast<std::size_t>(layout.extent.queries * layout.extent.keys), -1) {}

  // Of row `row` of the layout. Each pair is told at most once.
  void tell(std::int64_t row, std::int64_t key, bool allowed) {
    const std::int64_t at = row + layout_.first_position - layout_.positions.begin;
    if (at < 0 || at >= layout_.extent.queries || key < 0 || key >= layout_.extent.keys) return;
    int& seen = seen_[static_cast<std::size_t>(at * layout_.extent.keys + key)];
    EXPECT_EQ(seen, -1) << "row " << at << " key " << key << " twice";
    seen = allowed ? 1 : 0;
  }
  void expect_equals(const Tensor& dense, int group) const {
    const auto* allowed = dense.as<std::uint8_t>() + group * static_cast<std::int64_t>(seen_.size());
    for (std::size_t i = 0; i < seen_.size(); ++i)
      ASSERT_EQ(seen_[i] == 1, allowed[i] != 0)
          << "group " << group << " row " << static_cast<std::int64_t>(i) / layout_.extent.keys << " key "
          << static_cast<std::int64_t>(i) % layout_.extent.keys;
  }

 private:
  const BlockLayout& layout_;
  std::vector<int> seen_;
};

// head: of those that are stacked, whose rows are read.
void read_item(const BlockLayout& layout, const ArrangedStream& arranged, const StreamArrangement& how,
               const StreamItem& item, int head, Readback& readback) {
  const int positions = 64 / how.stacked_heads;
  unsigned used = 0;
  for (int n = 0; n < item.steps; ++n) {
    const bool full_step = n >= item.steps - item.full_steps;
    if (full_step) {
      EXPECT_EQ(used, (1u << how.parts) - 1) << "a full step before every part has used one";
    }
    for (int tile = 0; tile < how.tiles; ++tile) {
      const int* at = arranged.steps.data() + ((item.first_step + n) * how.tiles + tile) * (1 + how.parts);
      for (int part = 0; part < how.parts; ++part) {
        const int state = at[1 + part];
        if (full_step) {
          EXPECT_TRUE(state == TileState::kFull && at[0] + 64 <= layout.extent.keys);
        }
        if (state == TileState::kUnused) continue;
        used |= 1u << part;
        for (int row = 0; row < positions; ++row)
          for (int key = 0; key < 64; ++key)
            readback.tell(
                item.row + positions * part + row, at[0] + key,
                state == TileState::kFull || bit(arranged.words.data() + state * 128, positions * head + row, key));
      }
    }
  }
}

void expect_splits(const ArrangedStream& arranged, const StreamGroup& group) {
  std::set<int> slots;
  for (int i = 0; i < group.item_count; ++i) {
    const StreamItem& item = arranged.items[static_cast<std::size_t>(group.first_item + i)];
    if (i > 0) {
      EXPECT_LE(item.steps, (&item)[-1].steps) << "dearest first";
    }
    if (item.split == 0) continue;
    const int first = item.split & 0xffff, part = item.split >> 16 & 0xff, parts = item.split >> 24 & 0xff;
    EXPECT_LT(part, parts);
    EXPECT_TRUE(slots.insert(first + part).second) << "slot " << first + part << " twice";
  }
  EXPECT_EQ(std::ssize(slots), group.slots);
  if (!slots.empty()) {
    EXPECT_EQ(*slots.rbegin(), group.slots - 1);
  }
}

// Kernels find a pattern that repeats in their caches.
void expect_each_pattern_once(const std::vector<std::uint32_t>& words) {
  std::set<std::vector<std::uint32_t>> patterns;
  for (auto at = words.begin(); at != words.end(); at += 128)
    EXPECT_TRUE(patterns.emplace(at, at + 128).second) << "pattern " << (at - words.begin()) / 128 << " twice";
}

void expect_stream(const BoundMask& mask, const StreamArrangement& how) {
  const BlockLayout layout =
      pack_blocks(mask, {.block_q = 64 / how.stacked_heads * how.parts, .block_kv = 64, .key_step = 64});
  const Tensor dense = unpack(layout);
  const ArrangedStream arranged = arrange_stream(layout, how);
  ASSERT_EQ(std::ssize(arranged.groups), layout.groups);
  expect_each_pattern_once(arranged.words);
  for (int group = 0; group < layout.groups; ++group) {
    const StreamGroup& items = arranged.groups[static_cast<std::size_t>(group)];
    for (int head = 0; head < how.stacked_heads; ++head) {
      Readback readback(layout);
      for (int i = 0; i < items.item_count; ++i)
        read_item(layout, arranged, how, arranged.items[static_cast<std::size_t>(items.first_item + i)], head,
                  readback);
      readback.expect_equals(dense, group);
    }
    expect_splits(arranged, items);
  }
}

// Rows of a part's tile have the bits of their position in the first head, and positions that do not exist those of the
// nearest one that does: kernels must not find rows that begin later than others.
void expect_nearest(const BlockLayout& layout, const ArrangedStream& arranged, const StreamArrangement& how,
                    const StreamItem& item, int part, int state) {
  const std::int64_t positions = 64 / how.stacked_heads,
                     before = layout.first_position + item.row + positions * part;  // the part's first one
  const std::int64_t first = std::max<std::int64_t>(layout.positions.begin - before, 0),
                     last = std::min(layout.positions.end - before, positions) - 1;
  const std::uint32_t* words = arranged.words.data() + state * 128;
  for (int row = 0; row < 64; ++row) {
    const int nearest = static_cast<int>(std::clamp(row % positions, first, last));
    for (int key = 0; key < 64; ++key)
      ASSERT_EQ(bit(words, row, key), bit(words, nearest, key)) << "part " << part << " row " << row << " key " << key;
  }
}

TEST(ArrangeStream, GivesRowsThatDoNotExistTheBitsOfTheNearest) {
  for (const StreamArrangement& how :
       {StreamArrangement{1, 1}, {2, 1}, {1, 1, 0, 0, 7}, {2, 1, 0, 0, 5}, {1, 1, 0, 0, 4}})
    for (const std::int64_t queries : {1, 40, 75}) {
      const BoundMask mask(parse("causal & !window(9,9)"), {.queries = queries, .keys = 200});
      const BlockLayout layout =
          pack_blocks(mask, {.block_q = 64 / how.stacked_heads * how.parts, .block_kv = 64, .key_step = 8});
      const ArrangedStream arranged = arrange_stream(layout, how);
      int partial = 0;
      for (const StreamItem& item : arranged.items)
        for (int at = item.first_step * (1 + how.parts); at < (item.first_step + item.steps) * (1 + how.parts);
             at += 1 + how.parts)
          for (int part = 0; part < how.parts; ++part)
            if (const int state = arranged.steps[static_cast<std::size_t>(at + 1 + part)]; state >= 0) {
              ++partial;
              expect_nearest(layout, arranged, how, item, part, state);
            }
      EXPECT_GT(partial, 0) << queries;
      if (HasFatalFailure()) return;
    }
}

TEST(ArrangeStream, SaysWhatTheMaskSays) {
  constexpr StreamArrangement kShapes[] = {
      {1, 1, 0},       {1, 1, 2},       {2, 1, 3},       {2, 2, 0},       {2, 2, 1},       {3, 1, 2},
      {4, 1, 4},       {1, 1, 0, 4},    {1, 1, 2, 2},    {2, 1, 3, 1},    {2, 2, 0, 1},    {3, 1, 2, 1},
      {4, 1, 0, 1},    {1, 1, 0, 0, 2}, {2, 1, 3, 0, 4}, {2, 2, 2, 0, 8}, {2, 1, 0, 0, 2}, {1, 1, 0, 4, 2},
      {2, 2, 2, 1, 8}, {2, 1, 3, 2, 4}, {1, 1, 2, 4, 3}, {2, 2, 0, 1, 5}, {2, 1, 3, 0, 6}, {1, 1, 0, 2, 7}};
  for (unsigned seed = 0; seed < 400; ++seed) {
    const MaskExtent extent = random_extent(seed);
    const Mask expression = RandomMask(seed, extent, true).expression(2);
    SCOPED_TRACE(testing::Message() << "seed " << seed << " " << expression.text());
    expect_stream(BoundMask(expression, extent), kShapes[seed % std::size(kShapes)]);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(ArrangeStream, SplitsStayWithinTheBitsOfAnItem) {
  const std::int64_t length = 64 * 300;
  const BoundMask mask(all(), {.queries = length, .keys = length});
  const ArrangedStream arranged =
      arrange_stream(pack_blocks(mask, {.block_q = 64, .block_kv = 64, .key_step = 64}), {.most_steps = 1});
  EXPECT_LT(arranged.groups[0].slots, 1 << 16);
  expect_splits(arranged, arranged.groups[0]);
}

void expect_band(const BoundMask& mask, int parts, int keys) {
  const BlockLayout layout = pack_blocks(mask, {.block_q = 64 * parts, .block_kv = 64, .key_step = 8});
  const Tensor dense = unpack(layout);
  const auto arranged = arrange_band(layout, parts, keys);
  ASSERT_TRUE(arranged);
  ASSERT_EQ(std::ssize(arranged->rows), layout.groups * layout.row_blocks);
  const int words = (keys + 63) / 64;
  for (int group = 0; group < layout.groups; ++group) {
    Readback readback(layout);
    for (std::int64_t block = 0; block < layout.row_blocks; ++block) {
      const BandRow& row = arranged->rows[static_cast<std::size_t>(group * layout.row_blocks + block)];
      EXPECT_EQ(row.key_start & 7, 0);
      for (int part = 0; part < parts; ++part)
        for (int i = 0; i < 64; ++i)
          for (int key = 0; key < keys; ++key)
            readback.tell(block * 64 * parts + 64 * part + i, row.key_start + 64 * part + key,
                          bit(arranged->words.data() + (row.patterns[part] * words + key / 64) * 128, i, key % 64));
    }
    readback.expect_equals(dense, group);
  }
}

TEST(ArrangeBand, SaysWhatTheMaskSays) {
  int bands = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    const MaskExtent extent = random_extent(seed);
    const Mask narrow = RandomMask(seed, extent, true).expression(1) & window(static_cast<std::int64_t>(seed % 70));
    const BoundMask mask(narrow, extent);
    SCOPED_TRACE(testing::Message() << "seed " << seed << " " << narrow.text());
    constexpr BlockSize kTiles[] = {{64, 64}};
    const BandWidths widths = measure_bands(mask, measure(mask, kTiles));
    for (const int parts : {1, 2})
      for (const int keys : {96, 128, 192}) {
        if (!widths.measured || widths.keys[static_cast<std::size_t>(parts - 1)] > keys) continue;
        expect_band(mask, parts, keys);
        if (testing::Test::HasFatalFailure()) return;
        ++bands;
      }
  }
  EXPECT_GT(bands, 300);
}

// The measured width is the least: what is narrower does not fit.
TEST(ArrangeBand, FitsWhereTheMeasuredWidthDoesAndNowhereElse) {
  constexpr BlockSize kTiles[] = {{64, 64}};
  for (const std::int64_t reach : {0, 5, 16, 32, 64})
    for (const std::int64_t queries : {300, 150, 192})
      for (const RowOrigin origin : {RowOrigin::zero, RowOrigin::first_row}) {
        const BoundMask mask(window(reach), {.queries = queries, .keys = 300});
        const MaskBands bands(mask, origin);
        const BandWidths widths = measure_bands(bands, measure(bands, kTiles));
        ASSERT_TRUE(widths.measured);
        for (const int parts : {1, 2}) {
          const BlockLayout layout =
              pack_blocks(mask, {.block_q = 64 * parts, .block_kv = 64, .key_step = 8, .row_origin = origin});
          const auto width = static_cast<int>(widths.keys[static_cast<std::size_t>(parts - 1)]);
          EXPECT_TRUE(arrange_band(layout, parts, width)) << reach << " " << queries;
          EXPECT_FALSE(arrange_band(layout, parts, width - 8)) << reach << " " << queries;
        }
      }
}

// Row blocks from the first row on begin anywhere; of what holds their keys the start with the largest step is taken.
TEST(ArrangeBand, BeginsWhereCopiesOfPagesBringManyKeys) {
  const auto step = [](std::int64_t reach, std::int64_t keys, int held, RowOrigin origin) {
    const BoundMask mask(causal() & window(reach), {.queries = 500, .keys = keys});
    const auto arranged =
        arrange_band(pack_blocks(mask, {.block_q = 64, .block_kv = 64, .key_step = 8, .row_origin = origin}), 1, held);
    return arranged ? arranged->key_step : 0;
  };
  EXPECT_EQ(step(64, 8008, 128, RowOrigin::zero), 64);
  EXPECT_EQ(step(40, 8008, 128, RowOrigin::zero), 64);
  EXPECT_EQ(step(16, 8008, 96, RowOrigin::zero), 32) << "96 keys are not boxes of 64";
  EXPECT_EQ(step(60, 8008, 192, RowOrigin::first_row), 64);
  EXPECT_EQ(step(60, 8004, 128, RowOrigin::first_row), 16);
  EXPECT_EQ(step(60, 8012, 128, RowOrigin::first_row), 8);
  EXPECT_EQ(step(72, 8012, 128, RowOrigin::first_row), 0) << "136 keys";
}

// A plan for one row block may hold what its rows use, and not what whole row blocks at other positions do.
TEST(BandOverPages, IsThatOfTheLayout) {
  const auto over_pages = [](std::int64_t reach, std::int64_t queries, std::int64_t keys, std::int64_t batch,
                             const char* instance, bool with_spans = false) {
    const BoundMask mask(causal() & window(reach), {.queries = queries, .keys = keys});
    PackedMask packed;
    packed.kind = LayoutKind::block;
    packed.blocks = pack_blocks(mask, {.block_q = 64, .block_kv = 64, .key_step = 8});
    if (with_spans) packed.spans = row_spans(mask).value();
    packed.shape = {.batch = batch,
                    .heads = 8,
                    .kv_heads = 8,
                    .queries = queries,
                    .keys = keys,
                    .head_dim = 128,
                    .dtype = DType::f16};
    AttentionPlan plan;
    plan.instance = instance;
    return band_over_pages(arrange_band_mask(plan, std::move(packed), open_device("cuda:h200")));
  };
  EXPECT_EQ(over_pages(40, 20, 8192, 8, "band_f16_d128_p1_k96_c2"), OverPages::reads);
  EXPECT_EQ(over_pages(40, 8192, 8192, 8, "band_f16_d128_p1_k96_c2"), OverPages::passes_on);
  EXPECT_EQ(over_pages(40, 8192, 8192, 8, "band_f16_d128_p1_k128_c2"), OverPages::reads);
  EXPECT_EQ(over_pages(40, 256, 8192, 8, "band_f16_d128_p1_k192_c1"), OverPages::reads) << "256 row blocks";
  EXPECT_EQ(over_pages(40, 256, 8192, 9, "band_f16_d128_p1_k192_c1"), OverPages::reads_late);
  EXPECT_EQ(over_pages(40, 20, 8192, 8, "band_f16_d128_p1_k96_c2", true), OverPages::reads_anywhere);
  EXPECT_EQ(over_pages(40, 8192, 8192, 8, "band_f16_d128_p1_k96_c2", true), OverPages::passes_on);
}

void expect_gather(const BoundMask& mask, const GatherArrangement& how) {
  const BlockLayout layout = pack_blocks(mask, {.block_q = 64, .block_kv = 64, .key_step = 64});
  const Tensor dense = unpack(layout);
  const ArrangedGather arranged = arrange_gather(layout, how);
  ASSERT_EQ(std::ssize(arranged.groups), layout.groups);
  const int words = (how.pieces + 1) / 2;
  for (int group = 0; group < layout.groups; ++group) {
    const GatherGroup& items = arranged.groups[static_cast<std::size_t>(group)];
    Readback readback(layout);
    std::set<int> rows, slots;
    for (int i = 0; i < items.item_count; ++i) {
      const GatherItem& item = arranged.items[static_cast<std::size_t>(items.first_item + i)];
      EXPECT_EQ(item.units > 1 || item.split != 0, i < items.long_items);
      EXPECT_GE(item.units, 1);
      if (how.most_units > 0) {
        EXPECT_LE(item.units, how.most_units);
      }
      rows.insert(item.row);
      if (item.split != 0) {
        EXPECT_TRUE(slots.insert((item.split & 0xffff) + (item.split >> 16 & 0xff)).second);
      }
      for (int unit = item.first_unit; unit < item.first_unit + item.units; ++unit) {
        const int* at = arranged.units.data() + std::ptrdiff_t{unit} * (how.pieces + 1);
        const std::uint32_t* pattern = arranged.words.data() + std::ptrdiff_t{at[how.pieces]} * words * 128;
        for (int key = 0; key < 32 * how.pieces; ++key) {
          EXPECT_EQ(at[key / 32] & 7, 0);
          for (int row = 0; row < 64; ++row)
            if (bit(pattern + key / 64 * 128, row, key % 64))
              readback.tell(item.row + row, at[key / 32] + key % 32, true);
        }
      }
    }
    EXPECT_EQ(std::ssize(rows), layout.row_blocks);
    EXPECT_EQ(std::ssize(slots), items.slots);
    readback.expect_equals(dense, group);
  }
}

TEST(ArrangeGather, SaysWhatTheMaskSays) {
  constexpr GatherArrangement kShapes[] = {{4, 0}, {5, 1}, {3, 2}, {4, 2}, {6, 0}};
  for (unsigned seed = 0; seed < 140; ++seed) {
    const MaskExtent extent = random_extent(seed);
    const Mask expression = RandomMask(seed, extent, true).expression(2);
    SCOPED_TRACE(testing::Message() << "seed " << seed << " " << expression.text());
    expect_gather(BoundMask(expression, extent), kShapes[seed % std::size(kShapes)]);
    if (testing::Test::HasFatalFailure()) return;
  }
}

// Units of one piece each are the pieces that were counted before packing.
TEST(ArrangeGather, TakesAsManyPiecesAsWereCounted) {
  int measured = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    const MaskExtent extent = random_extent(seed);
    const Mask expression = RandomMask(seed, extent, true).expression(2);
    const BoundMask mask(expression, extent);
    constexpr BlockSize kTiles[] = {{64, 64}};
    const RowOrigin origin = seed % 3 == 0 ? RowOrigin::first_row : RowOrigin::zero;
    const MaskBands bands(mask, origin);
    const KeyPieces pieces = measure_pieces(bands, measure(bands, kTiles));
    if (!pieces.measured) continue;
    ++measured;
    const BlockLayout layout = pack_blocks(mask, {.block_q = 64, .block_kv = 64, .key_step = 64, .row_origin = origin});
    const ArrangedGather arranged = arrange_gather(layout, {.pieces = 1});
    std::map<std::int64_t, std::int64_t> counts, expected;
    for (const int group : layout.group_of)
      for (int i = 0; i < arranged.groups[static_cast<std::size_t>(group)].item_count; ++i)
        ++counts[arranged
                     .items[static_cast<std::size_t>(arranged.groups[static_cast<std::size_t>(group)].first_item + i)]
                     .units];
    for (const KeyPieces::Bin& bin : pieces.row_blocks) expected[std::max<std::int64_t>(1, bin.pieces)] += bin.count;
    EXPECT_EQ(counts, expected) << "seed " << seed << " " << expression.text();
  }
  EXPECT_GT(measured, 50);
}

TEST(ArrangeGather, LongformerTakesOneUnitARowBlockBesidesItsGlobalRows) {
  const BoundMask mask(window(16) | global_tokens(16), {.queries = 512, .keys = 512});
  const ArrangedGather arranged =
      arrange_gather(pack_blocks(mask, {.block_q = 64, .block_kv = 64, .key_step = 64}), {4, 2});
  ASSERT_EQ(arranged.items.size(), 9u);
  EXPECT_EQ(arranged.groups[0].long_items, 2);
  EXPECT_EQ(arranged.items[0].units, 2);
  EXPECT_EQ(arranged.items[2].units, 1);
}

TEST(ArrangeBand, MasksWithFarKeysAreNoBands) {
  constexpr BlockSize kTiles[] = {{64, 64}};
  const BoundMask wide(causal(), {.queries = 1000, .keys = 1000});
  EXPECT_FALSE(measure_bands(wide, measure(wide, kTiles)).measured);
  const BoundMask far(window(3) | sink(1), {.queries = 1000, .keys = 1000});
  EXPECT_EQ(measure_bands(far, measure(far, kTiles)).keys[0], 1000);
}

}  // namespace
}  // namespace stof::cuda
