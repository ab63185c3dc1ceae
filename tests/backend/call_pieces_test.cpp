// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/call_pieces.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "src/backend/cuda/attention/tile_maps.h"

namespace stof::cuda {
namespace {

std::vector<HeadRun> runs(std::vector<int> groups, std::int64_t per_kv) { return head_runs(groups, per_kv); }

TEST(HeadRuns, OneMaskIsOneRun) {
  EXPECT_EQ(runs({0, 0, 0, 0, 0, 0}, 2), (std::vector<HeadRun>{{0, 6, 2, 0}}));
  EXPECT_EQ(runs({3}, 1), (std::vector<HeadRun>{{0, 1, 1, 3}}));
}

TEST(HeadRuns, NeverShareAKeyHeadWronglyAndCoverEveryHead) {
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    const auto per_kv = static_cast<std::int64_t>(1 + random() % 4);
    const std::int64_t heads = per_kv * static_cast<std::int64_t>(1 + random() % 4);
    std::vector<int> groups;
    for (std::int64_t head = 0; head < heads; ++head)
      groups.push_back(head > 0 && random() % 3 != 0 ? groups.back() : static_cast<int>(random() % 3));
    std::int64_t next = 0;
    for (const HeadRun& run : head_runs(groups, per_kv)) {
      EXPECT_EQ(run.first, next);
      EXPECT_EQ(run.count % run.per_kv, 0);
      for (std::int64_t j = 0; j < run.count; ++j) {
        EXPECT_EQ(groups[static_cast<std::size_t>(run.first + j)], run.group);
        EXPECT_EQ(run.first / per_kv + j / run.per_kv, (run.first + j) / per_kv)
            << "key head of head " << run.first + j;
      }
      next += run.count;
    }
    EXPECT_EQ(next, heads);
  }
}

stof::AttentionCall call_of(std::span<const AttentionItem> items, bool packed) {
  stof::AttentionCall call;
  call.q_strides = call.out_strides = call.k_strides = call.v_strides = {.head = 64, .row = 128};
  call.heads = call.kv_heads = 2;
  call.head_dim = 64;
  call.dtype = DType::f16;
  call.packed = packed;
  call.items = items;
  return call;
}

AttentionItem item(std::int64_t place, std::int64_t queries, std::int64_t keys) {
  return {.index = 0,
          .queries = queries,
          .keys = keys,
          .q = 1000 * place,
          .k = 2000 * place,
          .v = 3000 * place,
          .out = 4000 * place,
          .lse = 10 * place};
}

TEST(ItemRuns, ItemsAtEvenDistancesGoTogether) {
  const std::vector<AttentionItem> items = {item(0, 5, 9), item(1, 3, 8), item(3, 4, 4)};
  const std::pmr::vector<ItemRun> found = item_runs(call_of(items, false), 10);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].places, 4);
  EXPECT_EQ(found[0].count, 3u);
  EXPECT_EQ(found[0].query_lengths, (std::pmr::vector<int>{5, 3, 0, 4})) << "an item without rows keeps its place";
  EXPECT_EQ(found[0].key_lengths, (std::pmr::vector<int>{9, 8, 0, 4}));
  EXPECT_EQ(found[0].query_rows, 5);
  EXPECT_EQ(found[0].key_rows, 9);
  EXPECT_EQ(found[0].k, 2000);
}

TEST(ItemRuns, AreCutWhereDistancesChangeAndWhereTheyAreFull) {
  std::vector<AttentionItem> items = {item(0, 5, 9), item(1, 5, 9), item(2, 5, 9), item(3, 5, 9)};
  EXPECT_EQ(item_runs(call_of(items, false), 2).size(), 2u);
  EXPECT_EQ(item_runs(call_of(items, false), 1).size(), 4u);
  items[2].v += 8;
  EXPECT_EQ(item_runs(call_of(items, false), 10).size(), 2u);
}

TEST(ItemRuns, MayShareWhatTheyRead) {
  std::vector<AttentionItem> items = {item(0, 5, 9), item(1, 5, 9), item(2, 5, 9)};
  for (AttentionItem& one : items) one.q = 0;
  EXPECT_EQ(item_runs(call_of(items, false), 10).size(), 1u) << "a batch stride of 0: one q for all";
}

// Of `rows` each, from row `place` on.
std::vector<AttentionItem> packed_items(std::initializer_list<std::pair<int, int>> rows_and_places) {
  std::vector<AttentionItem> items;
  for (const auto& [rows, place] : rows_and_places)
    items.push_back({.index = 0,
                     .queries = rows,
                     .keys = rows,
                     .q = 128 * place,
                     .k = 128 * place,
                     .v = 128 * place,
                     .out = 128 * place,
                     .lse = 2 * place});
  return items;
}

TEST(ItemRuns, PackedItemsFollowEachOtherByRows) {
  const std::vector<AttentionItem> items = packed_items({{5, 0}, {7, 5}, {2, 12}});
  const std::pmr::vector<ItemRun> found = item_runs(call_of(items, true), 10);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].query_starts, (std::pmr::vector<int>{0, 5, 12}));
  EXPECT_EQ(found[0].query_lengths, (std::pmr::vector<int>{5, 7, 2}));
  EXPECT_EQ(found[0].query_rows, 14);
  EXPECT_EQ(item_runs(call_of(items, true), 2).size(), 2u);
}

// Those that go by another plan have their rows of the page table between them.
TEST(ItemRuns, PackedItemsOverPagesMayHavePlacesBetween) {
  std::vector<AttentionItem> items = packed_items({{5, 0}, {7, 7}, {2, 40}});
  const int table = 0;
  stof::AttentionCall call = call_of(items, true);
  call.pages.table = &table;
  items[0].place = 3, items[1].place = 6, items[2].place = 40;
  const std::pmr::vector<ItemRun> found = item_runs(call, 100);
  ASSERT_EQ(found.size(), 2u) << "a launch of its own is sooner than 33 items without rows";
  EXPECT_EQ(found[0].places, 4);
  EXPECT_EQ(found[0].count, 2u);
  EXPECT_EQ(found[0].query_lengths, (std::pmr::vector<int>{5, 0, 0, 7}));
  EXPECT_EQ(found[0].query_starts, (std::pmr::vector<int>{0, 0, 0, 7}));
  EXPECT_EQ(found[0].key_lengths.size(), 4u);
  EXPECT_EQ(item_runs(call, 3).size(), 3u) << "no room for four";
}

// Likewise of trees, of which each place has its own.
TEST(ItemRuns, PackedItemsWithTreesMayHavePlacesBetween) {
  std::vector<AttentionItem> items = packed_items({{5, 0}, {7, 5}, {2, 12}});
  stof::AttentionCall call = call_of(items, true);
  items[1].place = 2, items[2].place = 3;
  call.trees = {.item_stride = 7, .row_stride = 1, .queries = 7};
  const std::pmr::vector<ItemRun> found = item_runs(call, 100);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].query_lengths, (std::pmr::vector<int>{5, 0, 7, 2}));
  EXPECT_EQ(found[0].query_starts, (std::pmr::vector<int>{0, 0, 5, 12}));
  call.trees.item_stride = 0;
  EXPECT_EQ(item_runs(call, 100)[0].query_lengths, (std::pmr::vector<int>{5, 7, 2})) << "one tree for all";
}

// Padded ones may have any number between them, so that those that follow each other go with them.
TEST(ItemRuns, PaddedItemsMayHaveOthersBetween) {
  std::vector<AttentionItem> items;
  for (const int place : {0, 3, 4, 7, 8}) items.push_back(item(place, 5, 9));
  for (AttentionItem& one : items) one.place = one.q / 1000;
  const std::pmr::vector<ItemRun> found = item_runs(call_of(items, false), 10);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].places, 9);
  EXPECT_EQ(found[0].place, 1);
  EXPECT_EQ(found[0].query_lengths, (std::pmr::vector<int>{5, 0, 0, 5, 5, 0, 0, 5, 5}));
}

TEST(ItemRuns, PackedItemsNeedNoRowStrideWhereNothingLiesBetween) {
  const std::vector<AttentionItem> items = packed_items({{1, 0}, {1, 0}});
  stof::AttentionCall call = call_of(items, true);
  for (AttentionStrides* strides : {&call.q_strides, &call.k_strides, &call.v_strides, &call.out_strides})
    strides->row = 0;
  const std::pmr::vector<ItemRun> found = item_runs(call, 10);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].query_starts, (std::pmr::vector<int>{0, 0}));
}

TEST(ItemRuns, PackedItemsThatLieEvenlyRunAsPaddedOnes) {
  const std::vector<AttentionItem> items = packed_items({{5, 0}, {5, 5}, {5, 10}});
  const stof::AttentionCall call = call_of(items, true);
  const std::pmr::vector<ItemRun> found = item_runs(call, 10);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0].in_a_row);
  EXPECT_TRUE(found[0].query_starts.empty() && found[0].key_starts.empty()) << "nothing to bring to the device";
  EXPECT_EQ(found[0].query_rows, 5);
  EXPECT_EQ(found[0].q, 5 * 128);
  const TileBoxes boxes = boxes_of(call, found[0], {0, 2, 1, 0}, {});
  EXPECT_EQ(boxes.q.sizes[1], 5) << "rows of the next item are none of this one's";
  EXPECT_EQ(boxes.q.sizes[4], 3);
  EXPECT_EQ(boxes.q.strides[3], 5 * 128);
  for (const auto& uneven : {packed_items({{5, 0}, {5, 5}, {5, 11}}), packed_items({{5, 0}, {4, 5}, {5, 10}})}) {
    const std::pmr::vector<ItemRun> runs = item_runs(call_of(uneven, true), 10);
    ASSERT_EQ(runs.size(), 1u);
    EXPECT_TRUE(runs[0].in_a_row);
    EXPECT_EQ(runs[0].query_starts.size(), 3u);
    EXPECT_EQ(boxes_of(call, runs[0], {0, 2, 1, 0}, {}).q.sizes[4], 1);
  }
}

TEST(ItemRuns, NoItemsAreNoRuns) {
  for (const bool packed : {false, true}) EXPECT_TRUE(item_runs(call_of({}, packed), 10).empty()) << packed;
  stof::AttentionCall call = call_of({}, true);
  call.residues = 3;
  EXPECT_FALSE(class_run(call, 6));
}

TEST(ItemRuns, ClassesOfEvenItemsAreOneRun) {
  std::vector<AttentionItem> items;
  for (const int row : {0, 1, 2})
    for (const int place : {0, 1}) {
      AttentionItem one = item(place, 4, 4);
      one.q += 8 * row, one.k += 16 * row, one.v += 24 * row, one.out += 32 * row, one.lse += row;
      items.push_back(one);
    }
  stof::AttentionCall call = call_of(items, false);
  EXPECT_FALSE(class_run(call, 6)) << "its items are of one class";
  call.residues = 3;
  const std::optional<ItemRun> run = class_run(call, 6);
  ASSERT_TRUE(run);
  EXPECT_EQ(run->places, 2);
  EXPECT_EQ(run->count, 6u);
  EXPECT_EQ(run->residues, 3);
  EXPECT_EQ((std::vector{run->q, run->k, run->v, run->out}), (std::vector<std::int64_t>{1000, 2000, 3000, 4000}));
  EXPECT_EQ((std::vector{run->q_class, run->k_class, run->v_class, run->out_class}),
            (std::vector<std::int64_t>{8, 16, 24, 32}));
  EXPECT_FALSE(class_run(call, 5)) << "the plan has no room for the partial results of so many";
  const TileBoxes boxes = boxes_of(call, *run, {0, 2, 1, 0}, {});
  EXPECT_EQ(boxes.q.sizes[2], 3);
  EXPECT_EQ(boxes.q.strides[1], 8);
  EXPECT_EQ(boxes.q.sizes[4], 2);

  EXPECT_EQ(run->lse_class, 1);
  items[3].lse += 1;
  EXPECT_FALSE(class_run(call, 6));
  items[3].lse -= 1;
  items[3].k += 16;
  EXPECT_FALSE(class_run(call, 6));
  items[3].k -= 16;
  items[5].queries = 3;
  EXPECT_FALSE(class_run(call, 6));
}

// What cannot take all classes at once, or not of so many items, takes an item after the other.
TEST(ItemRuns, ClassesOfEachItemAreARun) {
  std::vector<AttentionItem> items;
  for (const int row : {0, 1, 2})
    for (const int place : {0, 5, 7, 20}) {
      AttentionItem one = item(place, 4, 4);
      one.q += 8 * row, one.k += 16 * row, one.v += 24 * row, one.out += 32 * row, one.lse += row;
      items.push_back(one);
    }
  stof::AttentionCall call = call_of(items, true);
  call.residues = 3;
  EXPECT_FALSE(class_run(call, 100)) << "items lie unevenly";
  const std::pmr::vector<AttentionItem> by_item = classes_of_each_item(call);
  call.items = by_item, call.residues = 1, call.packed = false;
  const std::pmr::vector<ItemRun> runs = item_runs(call, 12);
  ASSERT_EQ(runs.size(), 4u);
  for (const ItemRun& run : runs) {
    EXPECT_EQ(run.places, 3);
    EXPECT_EQ(run.out, 32);
  }
}

// Of q 64 rows at a time, of out the 16 of a warp, of keys what the kernel says.
TEST(TileMaps, OfStackedHeadsAreAsManyPositionsOfEach) {
  const std::vector<AttentionItem> items = {item(0, 5, 9)};
  const stof::AttentionCall call = call_of(items, false);
  const ItemRun run = item_runs(call, 1).front();
  const auto rows_and_heads = [&](int stacked_heads) {
    const TileBoxes boxes = boxes_of(call, run, {0, 2, 1, 0}, {.keys = 96, .stacked_heads = stacked_heads});
    EXPECT_EQ(boxes.k.box[1], 96);
    EXPECT_EQ(boxes.v.box[3], 1);
    return std::vector{boxes.q.box[1], boxes.q.box[3], boxes.out.box[1], boxes.out.box[3]};
  };
  EXPECT_EQ(rows_and_heads(1), (std::vector{64, 1, 16, 1}));
  EXPECT_EQ(rows_and_heads(2), (std::vector{32, 2, 16, 1}));
  EXPECT_EQ(rows_and_heads(4), (std::vector{16, 4, 16, 1}));
  EXPECT_EQ(rows_and_heads(8), (std::vector{8, 8, 8, 2}));
}

TEST(TileMaps, WithoutKeysAreOfTheQueries) {
  const std::vector<AttentionItem> items = {item(0, 5, 0)};
  stof::AttentionCall call = call_of(items, false);
  call.q = call.out = reinterpret_cast<void*>(std::uintptr_t{4096});  // k and v are null
  const TileBoxes boxes = boxes_of(call, item_runs(call, 1).front(), {0, 2, 1, 0}, {});
  for (const TensorBox& box : boxes.all()) EXPECT_EQ(refuses(box).value_or(""), "");
  EXPECT_EQ(boxes.k.base, call.q);
  EXPECT_EQ(boxes.v.sizes[1], 1);
}

TEST(TileMaps, RefuseWhatIsNotOn16Bytes) {
  const std::vector<AttentionItem> items = {item(0, 5, 9)};
  stof::AttentionCall call = call_of(items, false);
  call.q = call.k = call.v = call.out = reinterpret_cast<void*>(std::uintptr_t{4096});
  const auto refusal = [&] {
    const ItemRun run = item_runs(call, 1).front();
    for (const TensorBox& box : boxes_of(call, run, {0, 2, 1, 0}, {}).all())
      if (const auto why = refuses(box)) return *why;
    return std::string();
  };
  EXPECT_EQ(refusal(), "");
  call.v = reinterpret_cast<void*>(std::uintptr_t{4098});
  EXPECT_EQ(refusal(), "v is 2 bytes past a multiple of 16, and the copy engine takes only multiples");
  call.v = call.k;
  call.k_strides.head = 65;
  EXPECT_EQ(refusal(), "k has a stride of 130 bytes; the copy engine takes multiples of 16 from 0 to 1099511627760");
}

TEST(ScoreScale, IsFiniteAndCapsNothingFarBelowTheCap) {
  for (const float scale : {-1e18f, -1.f, 1e-30f, 0.125f, 1e18f})
    for (const float cap : {0.f, 1e-18f, 30.f, 1e18f}) {
      stof::AttentionCall call;
      call.scale = scale, call.softcap = cap;
      const auto [log2, cap_log2] = score_scale(call);
      EXPECT_TRUE(std::isfinite(log2) && std::isfinite(cap_log2)) << scale << ", " << cap;
      // 0 is what kernels take for a call without a cap.
      if (cap_log2 == 0) EXPECT_FLOAT_EQ(log2, scale * 1.442695f) << scale << ", " << cap;
      else EXPECT_FLOAT_EQ(log2, cap * 1.442695f) << scale << ", " << cap;
      EXPECT_EQ(cap_log2 == 0, cap == 0 || (scale == 1e-30f && cap == 1e18f)) << scale << ", " << cap;
    }
}

}  // namespace
}  // namespace stof::cuda
