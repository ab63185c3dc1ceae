// SPDX-License-Identifier: Apache-2.0
// Row blocks of chunks are cut into parts where teams would have nothing to do, and only there.
#include "src/backend/cuda/attention/span_split.h"

#include <gtest/gtest.h>

#include "src/backend/cuda/attention/listed_mask.h"
#include "src/backend/cuda/attention/team_times.h"

namespace stof::cuda {
namespace {

constexpr int kPositions = 65536;

SpanForm causal_form() {
  SpanForm form{.rows = {}, .first_position = 0, .block_rows = 128, .tiles = 2};
  for (int position = 0; position < kPositions; ++position) form.rows.push_back({.begin = 0, .end = position + 1});
  form.costs[ListTerm::full] = 1, form.costs[ListTerm::alone] = 0.7, form.costs[ListTerm::item] = 2;
  form.costs[ListTerm::part] = 1, form.costs[ListTerm::merge] = 0.5;
  form.teams = 132, form.slots = 4 * 132;
  return form;
}

SpanSplit split(const SpanForm& form, std::vector<int> queries, std::vector<int> keys, int slices) {
  return split_spans(form, {.queries = queries, .keys = keys, .slices_of_item = slices});
}

TEST(SpanSplit, CutsFewRowBlocks) {
  const SpanForm form = causal_form();
  const SpanSplit few = split(form, {256}, {32768}, 8);
  EXPECT_EQ(few.row_blocks, 2);
  EXPECT_EQ(few.parts, 8) << "16 row blocks for 132 teams";
  EXPECT_EQ(few.part_steps, 256 / 8);
  const SpanSplit begun_inside = split(form, {256}, {32768 - 77}, 8);
  EXPECT_EQ(begun_inside.row_blocks, 2) << "wherever the item begins";
}

TEST(SpanSplit, LeavesManyRowBlocksWhole) {
  EXPECT_EQ(split(causal_form(), std::vector<int>(16, 1024), std::vector<int>(16, 32768), 32).parts, 1);
}

TEST(SpanSplit, HasPartsOfEnoughSteps) {
  const SpanSplit brief = split(causal_form(), {128}, {1024}, 4);
  EXPECT_LE(brief.parts, 8 / kFewestSteps);
  EXPECT_EQ(split(causal_form(), {128}, {128}, 1).parts, 1);
}

TEST(SpanSplit, FitsTheRoomForResults) {
  SpanForm form = causal_form();
  form.slots = 64;
  const SpanSplit little = split(form, {256}, {32768}, 8);
  EXPECT_LE(little.row_blocks * little.parts * 8, 64);
  EXPECT_GT(little.parts, 1);
}

// Whole ones would be begun in the order of items, the longest when others are nearly done: of 224 row blocks 64 have
// three times as many steps as most.
TEST(SpanSplit, CutsLongRowBlocksAmongShorterOnes) {
  SpanForm form = causal_form();
  form.block_rows = 192, form.tiles = 1, form.slots = 8 * 132;
  const SpanSplit chunks = split(form, {370, 241, 487}, {8589, 25958, 10519}, 32);
  EXPECT_GT(chunks.parts, 1);
  EXPECT_LT(chunks.part_steps, 25958 / 64 / 2 + 1);
}

// A long prompt's row blocks, which are whole, need no room for results.
TEST(SpanSplit, HasRoomForPartsOfThoseThatHaveSeveral) {
  SpanForm form = causal_form();
  form.slots = 8 * 132;
  const SpanSplit both = split(form, {1631, 62}, {6467, 25042}, 28);
  EXPECT_EQ(both.row_blocks, 13);
  EXPECT_GT(both.parts, 1) << "the 62 queries' steps are four times as many as the prompt's last ones";
  EXPECT_LT(both.split_blocks, 13);
  EXPECT_LE(both.split_blocks * both.parts * 56, form.slots);
  const SpanSplit alike = split(form, {487, 487}, {25984, 25984}, 8);
  EXPECT_EQ(alike.split_blocks, alike.row_blocks) << "every one of them has parts";
}

TEST(TeamTimes, AreOfAQueue) {
  TeamTimes times(3);
  times.take(4, 2);  // the last begins at 2
  EXPECT_EQ(times.last(), 4);
  times.take(2, 1);  // by the two that are done at 2
  EXPECT_EQ(times.last(), 4);
  times.take(3, 5);  // two from 3 on, one from 4 on
  EXPECT_EQ(times.last(), 9);
  TeamTimes many(100);
  double sum = 0;
  for (int i = 0; i < 500; ++i) many.take(7, 1 + i % 13), sum += 7 * (1 + i % 13);
  EXPECT_GE(many.last(), sum / 100);
  EXPECT_LE(many.last(), sum / 100 + 13) << "the last piece begins before the mean";
}

// A causal mask's last rows have the most keys; of a long document that ends in a chunk the first ones have.
TEST(SpanSplit, BeginsWithRowBlocksOfTheMostKeys) {
  SpanForm form = causal_form();
  EXPECT_TRUE(split(form, {1024}, {32768}, 8).last_first);
  constexpr int kEnd = 32000;
  for (int position = kEnd; position < kPositions; ++position)
    form.rows[static_cast<std::size_t>(position)].begin = kEnd;
  EXPECT_FALSE(split(form, {1024}, {32768}, 8).last_first);
  EXPECT_TRUE(split(form, {1024}, {kEnd}, 8).last_first);
}

// Row blocks lie at positions that 64 divides where that saves tiles: a window of 127 keys, in pages, touches three
// there, and four from almost anywhere else.
TEST(SpanSplit, AlignsRowBlocksWhereTheyThenHaveFewerSteps) {
  SpanForm window = causal_form();
  window.block_rows = 64, window.tiles = 1;
  for (int position = 127; position < kPositions; ++position)
    window.rows[static_cast<std::size_t>(position)].begin = position - 127;
  const auto of = [](const SpanForm& form, int queries, int keys, bool known = true, int slices = 64) {
    return split_spans(form, {.queries = std::span(&queries, 1),
                              .keys = std::span(&keys, 1),
                              .slices_of_item = slices,
                              .key_step = 64,
                              .known = known});
  };
  EXPECT_TRUE(of(window, 900, 4000).aligned);
  EXPECT_EQ(of(window, 900, 4000).row_blocks, 15) << "of 28 and 900 rows";
  EXPECT_EQ(of(window, 900, 4000).part_steps, 3);
  EXPECT_FALSE(of(window, 896, 4096).aligned) << "they lie so";
  EXPECT_FALSE(of(window, 64, 4000, true, 132).aligned) << "two row blocks for one, and a team for each one";
  EXPECT_FALSE(of(window, 900, 4000, false).aligned);
  EXPECT_FALSE(of(causal_form(), 900, 40000).aligned);
  window.stacked = true;
  EXPECT_FALSE(of(window, 900, 4000).aligned);
}

// Copies of fewer keys than 64 pay where they save tiles of a window, and not of long rows.
TEST(SpanSplit, HasSmallerCopiesOfPagesForNarrowWindows) {
  SpanForm form = causal_form();
  EXPECT_EQ(key_step_in_pages(form), 64);
  for (int position = 0; position < kPositions; ++position)
    form.rows[static_cast<std::size_t>(position)].begin = std::max(0, position - 127);
  form.tiles = 1, form.block_rows = 64;
  EXPECT_EQ(key_step_in_pages(form), 64) << "at positions that 64 divides they touch three tiles";
  form.stacked = true, form.block_rows = 8;
  EXPECT_EQ(key_step_in_pages(form), 32) << "135 keys are in three tiles, and in up to four from multiples of 64 on";
  form.block_rows = 48;
  EXPECT_EQ(key_step_in_pages(form), 16) << "and so are 175, from a multiple of 16 on";
  form.rows.resize(10);
  EXPECT_EQ(key_step_in_pages(form), 64) << "no row block is whole";
}

// The rows of positions from 40 on: at those that 64 divides windows touch three tiles as before.
TEST(SpanSplit, CountsTilesAtPositionsThatRowsHave) {
  SpanForm form = causal_form();
  form.first_position = 40, form.tiles = 1, form.block_rows = 64;
  for (int i = 0; i < kPositions; ++i)
    form.rows[static_cast<std::size_t>(i)] = {.begin = std::max(0, 40 + i - 127), .end = 40 + i + 1};
  EXPECT_EQ(key_step_in_pages(form), 64);
}

// Few parts are added up by the last one, many by a grid behind, unless it would read more than it is worth.
TEST(SpanSplit, AddsManyPartsUpBehind) {
  SpanForm form = causal_form();
  EXPECT_TRUE(split(form, {128}, {65536}, 8).summed);
  EXPECT_FALSE(split(form, {128}, {65536}, 66).summed) << "two parts";
  form.slot_bytes = 1e6;
  EXPECT_FALSE(split(form, {128}, {65536}, 8).summed);
}

// Where one row block of many needs parts, each of the others is looked at as often: that costs more than it gains.
TEST(SpanSplit, LooksAtFewRowBlocksThatHaveNoSuchPart) {
  SpanForm form = causal_form();
  for (int position = 1024; position < kPositions; ++position)
    form.rows[static_cast<std::size_t>(position)].begin = position - 100;
  const std::vector<int> queries(64, 900), keys(64, 1500);
  EXPECT_EQ(split(form, queries, keys, 32).parts, 1);
}

// What a plan has room for, by one item with all slices, is what its launches of such items need.
TEST(SpanSplit, CountsTheResultsThatItLeaves) {
  SpanForm form = causal_form();
  const auto slots = [&](int queries, int keys, int slices) {
    return slots_of(form, {.queries = std::span(&queries, 1), .keys = std::span(&keys, 1), .slices_of_item = slices});
  };
  const SpanSplit planned = split(form, {256, 256}, {32768, 32768}, 4);
  EXPECT_EQ(slots(256, 32768, 8), planned.row_blocks * planned.parts * 8);
  form.slots = slots(256, 32768, 8);
  EXPECT_EQ(split(form, {256, 256}, {32768, 32768}, 4), planned);
  EXPECT_EQ(slots(128, 128, 8), 0);
  form.slots = 0;
  EXPECT_EQ(split(form, {256}, {32768}, 8).parts, 1) << "no room";
}

TEST(SpanSplit, TakesItemsWithoutRowsOrKeys) {
  const SpanForm form = causal_form();
  EXPECT_EQ(split(form, {}, {}, 8), SpanSplit{});
  EXPECT_EQ(split(form, {0, 0}, {100, 0}, 8), SpanSplit{});
  EXPECT_EQ(split(form, {7}, {0}, 8), (SpanSplit{.row_blocks = 1, .parts = 1, .part_steps = 1}));
}

// Of long lists of items some row blocks are looked at: parts are those of as many items alike.
TEST(SpanSplit, SamplesManyItems) {
  SpanForm form = causal_form();
  form.teams = 1320, form.slots = 1 << 20;
  const SpanSplit many = split(form, std::vector<int>(300, 300), std::vector<int>(300, 30000), 1);
  EXPECT_EQ(many.row_blocks, 3);
  EXPECT_GT(many.parts, 1) << "900 row blocks for 1,320 teams";
}

}  // namespace
}  // namespace stof::cuda
