// SPDX-License-Identifier: Apache-2.0
// Every invariant, broken on purpose.
#include <gtest/gtest.h>

#include <functional>

#include "src/layout/pack.h"
#include "tests/expect_error.h"

namespace stof {
namespace {

void expect_named(const std::function<void(BlockLayout&)>& breaks, const std::string& invariant) {
  BlockLayout layout = pack_blocks(BoundMask(parse("causal"), {.queries = 200, .keys = 200}), {});
  validate(layout);
  breaks(layout);
  EXPECT_ERROR(validate(layout), ErrorKind::internal, "layout: " + invariant);
}

TEST(Validate, NamesTheBrokenInvariantOfABlockLayout) {
  expect_named([](BlockLayout& l) { l.positions.end += 1; }, "positions end with the keys");
  expect_named([](BlockLayout& l) { l.group_of.push_back(0); }, "every head of every item has a group");
  expect_named([](BlockLayout& l) { l.group_of[0] = 1; }, "groups are in range");
  expect_named([](BlockLayout& l) { l.row_begin.pop_back(); }, "every row has a beginning");
  expect_named([](BlockLayout& l) { std::swap(l.row_begin[1], l.row_begin[2]); }, "rows begin in ascending order");
  expect_named([](BlockLayout& l) { l.row_begin[0] = 1; }, "the first row begins at 0");
  expect_named([](BlockLayout& l) { l.entries.push_back(l.entries.back()); }, "the rows hold every entry");
  expect_named([](BlockLayout& l) { l.has_empty_row.clear(); }, "every row-block says whether a row is empty");
  expect_named([](BlockLayout& l) { std::swap(l.entries[1], l.entries[2]); }, "entries ascend without overlap");
  expect_named([](BlockLayout& l) { l.entries[1].key_start = 8; },
               "entries start inside the keys at a multiple of key_step");
  expect_named([](BlockLayout& l) { l.entries[0].parts = 2; }, "entries are needed by some part of the row-block");
  expect_named([](BlockLayout& l) { l.entries[0].bitmap = 99; }, "bitmaps are in range");
  expect_named([](BlockLayout& l) { l.bitmaps.back() = 1; }, "bits outside the extent are 0");
  expect_named([](BlockLayout& l) { std::fill_n(l.bitmaps.begin(), 64, 0); },
               "a partial entry has an allowed and a forbidden pair");
}

TEST(Validate, NamesTheBrokenInvariantOfARowLayout) {
  RowLayout layout = pack_rows(BoundMask(parse("window(3)"), {.queries = 20, .keys = 20}));
  validate(layout);
  layout.intervals[2].end = 21;
  EXPECT_ERROR(validate(layout), ErrorKind::internal,
               "layout: intervals ascend, apart from each other, inside the keys");
}

}  // namespace
}  // namespace stof
