// SPDX-License-Identifier: Apache-2.0
// Row blocks of a band begin at items' first rows where these are fewer, and only where the keys that are loaded at
// once are all that their rows are allowed.
#include "src/backend/cuda/attention/band_spans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "src/layout/row_spans.h"

namespace stof::cuda {
namespace {

constexpr int kMostQueries = 150, kMostKeys = 700;

// Over every position that an item may have.
struct Rows {
  int first_position = -kMostQueries;
  std::vector<RowSpan> spans;

  explicit Rows(const std::string& mask)
      : spans(row_spans(BoundMask(parse(mask), {.queries = kMostKeys + kMostQueries, .keys = kMostKeys})).value()) {}
  const RowSpan& at(int position) const { return spans[static_cast<std::size_t>(position - first_position)]; }
};

BandForm form_of(const BandInstance& instance, const Rows& rows) {
  return band_form(instance, rows.spans, rows.first_position, kMostKeys);
}

// As band_key_start of kernels/cuda/band_spans.cuh has it.
int key_start(const BandForm& form, int position, int rows, int copy) {
  const int begin = form.rule ? band_begin(*form.rule, position, std::min(rows, form.block_rows()))
                              : form.rows[static_cast<std::size_t>(position - form.first_position)].band_begin;
  return begin & -copy;
}

// That of the item's row block from `row` on all keys that its rows are allowed are loaded, for the part that they are
// of.
void expect_loaded(const BandForm& form, const Rows& rows, int queries, int keys, int row, int copy) {
  const int before = keys - queries, end = std::min(row + form.block_rows(), queries);
  const int start = key_start(form, before + row, queries - row, copy);
  for (int i = row; i < end; ++i) {
    const RowSpan& span = rows.at(before + i);
    const int from = start + (i - row) / 64 * 64, range_end = std::min(span.end, keys);
    if (span.begin < range_end) {
      ASSERT_GE(span.begin, from) << queries << " over " << keys << ", row " << i;
      ASSERT_LE(range_end, from + form.instance.keys) << queries << " over " << keys << ", row " << i;
    }
    if (span.prefix_end > 0) {
      ASSERT_GE(0, from) << queries << " over " << keys << ", row " << i;
      ASSERT_LE(std::min(span.prefix_end, keys), from + form.instance.keys) << queries << " over " << keys;
    }
  }
}

TEST(BandSpans, LoadEveryKeyThatRowsAreAllowed) {
  std::mt19937 random(7);
  const auto below = [&](int count) { return std::uniform_int_distribution(0, count - 1)(random); };
  for (const char* mask :
       {"causal & window(20)", "causal & window(64)", "window(20,40)", "window(3,3)", "causal", "all",
        "causal & (window(8) | sink(2))", "prefix(50) | causal", "!window(70) & causal & window(90)",
        "documents([0,33,70,150,151,240,300,420,500,580]) & causal", "documents([0,65,100,200]) "}) {
    const Rows rows(mask);
    int from_first = 0;
    for (const BandInstance& instance : band_instances()) {
      const BandForm form = form_of(instance, rows);
      for (int i = 0; i < 60; ++i) {
        std::vector<int> queries, keys;
        for (int item = 0; item < 3; ++item) {
          queries.push_back(below(4) == 0 ? 0 : 1 + below(kMostQueries));
          keys.push_back(below(6) == 0 ? below(kMostKeys) : below(200));
        }
        const BandPlacement placed = place_band(form, {.queries = queries,
                                                       .keys = keys,
                                                       .page = 16 << below(4),
                                                       .layout_position = -kMostQueries,
                                                       .layout_copy = 16 << below(3),
                                                       .at_once = 1.0 + below(20)});
        if (!placed.from_first_row) continue;
        ++from_first;
        EXPECT_EQ(instance.loaded_keys() % placed.copy, 0);
        for (std::size_t item = 0; item < queries.size(); ++item)
          for (int row = 0; row < queries[item] && keys[item] > 0; row += form.block_rows())
            expect_loaded(form, rows, queries[item], keys[item], row, placed.copy);
        if (HasFatalFailure()) FAIL() << mask << ", " << name_of(instance, DType::f16);
      }
    }
    EXPECT_GT(from_first, 20) << mask;
  }
}

// Of `count` items alike, each of 64 slices, in a layout from position 0 on.
BandPlacement place(const char* mask, const BandInstance& instance, int count, int queries, int keys, int page = 64) {
  const std::vector<int> of_queries(static_cast<std::size_t>(count), queries),
      of_keys(static_cast<std::size_t>(count), keys);
  return place_band(form_of(instance, Rows(mask)), {.queries = of_queries,
                                                    .keys = of_keys,
                                                    .slices_of_item = 64,
                                                    .page = page,
                                                    .layout_copy = std::min(page, instance.keys == 96 ? 32 : 64),
                                                    .at_once = 132.0 * instance.ctas});
}
constexpr BandInstance k96{128, 1, 96, 2}, k128{128, 1, 128, 2}, k192{128, 1, 192, 1};

TEST(BandSpans, BeginAtTheFirstRowWhereRowBlocksAreFewer) {
  EXPECT_EQ(place("causal", k96, 16, 18, 73), (BandPlacement{1, 32, true})) << "rows 55 to 72";
  EXPECT_EQ(place("causal", k128, 16, 18, 73, 128), (BandPlacement{1, 64, true}));
  EXPECT_EQ(place("causal", k128, 16, 37, 104), (BandPlacement{1, 64, false})) << "rows 67 to 103 lie in one";
  EXPECT_EQ(place("causal", k128, 4, 37, 104), (BandPlacement{1, 64, true})) << "of few no layout is waited for";
  EXPECT_EQ(place("causal", k96, 16, 18, 130), (BandPlacement{2, 32, false})) << "130 keys are too many";
}

// The first of 158 keys is number 40: copies of 64 would begin at 0, and 192 keys would end before the last.
TEST(BandSpans, BeginWhereCopiesHoldTheLastKey) {
  EXPECT_EQ(place("causal & window(128)", k192, 4, 31, 199), (BandPlacement{1, 32, true}));
  EXPECT_EQ(place("causal & window(128)", k192, 4, 31, 199, 16), (BandPlacement{1, 16, true}));
  EXPECT_EQ(place("causal & window(128)", k192, 64, 64, 640), (BandPlacement{1, 64, false}))
      << "as many row blocks as the layout has, whose words stay as they are";
}

// Rows 52 to 151 touch three row blocks of the layout, rows 28 to 127 two. From the first row on there are two, of
// which one needs copies of 32 keys.
TEST(BandSpans, CountWhatSmallCopiesTake) {
  std::vector<int> queries(64, 100), keys(64, 100 + 52);
  const BandForm form = form_of(k128, Rows("causal & window(56)"));
  BandItems items{
      .queries = queries, .keys = keys, .slices_of_item = 64, .page = 16, .layout_copy = 16, .at_once = 264};
  EXPECT_EQ(place_band(form, items), (BandPlacement{2, 16, true}));
  items.page = 64, items.layout_copy = 64;
  EXPECT_EQ(place_band(form, items), (BandPlacement{2, 32, true}));
  for (std::size_t i = 0; i < 62; ++i) keys[i] = 100 + 28;
  EXPECT_EQ(place_band(form, items), (BandPlacement{3, 64, false}));
}

TEST(TouchedRowBlocks, AreThoseOfTheItemThatHasMost) {
  const auto touched = [](std::vector<int> queries, std::vector<int> keys, int first_position, int rows = 64) {
    return touched_row_blocks(queries, keys, first_position, rows);
  };
  EXPECT_EQ(touched({20}, {120}, 0), 1) << "rows 100 to 119";
  EXPECT_EQ(touched({20}, {140}, 0), 2) << "rows 120 to 139";
  EXPECT_EQ(touched({20}, {140}, 0, 128), 2);
  EXPECT_EQ(touched({20}, {140}, 120), 1) << "the layout begins there";
  EXPECT_EQ(touched({0, 64, 1}, {500, 64, 0}, 0), 1);
  EXPECT_EQ(touched({64, 65}, {100, 65}, 0), 2);
  EXPECT_EQ(touched({0, 0}, {9, 0}, 0), 0);
}

}  // namespace
}  // namespace stof::cuda
