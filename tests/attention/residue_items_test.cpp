// SPDX-License-Identifier: Apache-2.0
// Masks that are viewed by residue class: how items are cut into classes, and whole runs against the definition.
#include "src/attention/residue_items.h"

#include <gtest/gtest.h>

#include "tests/attention/devices.h"
#include "tests/attention/expect_attention.h"

namespace stof {
namespace {

AttentionCall call_of(std::vector<AttentionItem>& items, bool packed) {
  AttentionCall call;
  call.q_strides = call.out_strides = {.head = 1000, .row = 10};
  call.k_strides = call.v_strides = {.head = 2000, .row = 20};
  call.lse_strides = {.head = 500, .row = 1};
  call.packed = packed;
  call.items = items;
  return call;
}

AttentionItem item_at(std::int64_t row, std::int64_t queries, std::int64_t keys) {
  AttentionItem item;
  item.queries = queries, item.keys = keys;
  item.q = item.out = 10 * row, item.k = item.v = 20 * row, item.lse = row;
  return item;
}

TEST(ResidueItems, PairQueriesWithTheKeysOfTheirPosition) {
  std::vector<AttentionItem> items{item_at(0, 7, 10)};  // rows at positions 3..9
  const AttentionCall call = call_of(items, false);
  // Rows 1, 4: positions 4, 7; keys 1, 4, 7.
  const AttentionItem made = class_item(call, items[0], 1, 3);
  EXPECT_EQ(made.queries, 2);
  EXPECT_EQ(made.keys, 3);
  EXPECT_EQ(made.q, 10);
  EXPECT_EQ(made.k, 20);
  EXPECT_EQ(made.lse, 1);
  // Rows 0, 3, 6: positions 3, 6, 9; keys 0, 3, 6, 9.
  EXPECT_EQ(class_item(call, items[0], 0, 3).queries, 3);
  EXPECT_EQ(class_item(call, items[0], 0, 3).keys, 4);
  EXPECT_EQ(class_item(call, items[0], 0, 3).k, 0);
}

TEST(ResidueItems, ExtentHoldsEveryClass) {
  for (std::int64_t n = 1; n < 9; ++n)
    for (std::int64_t queries = 1; queries < 30; ++queries)
      for (std::int64_t keys = 1; keys < 30; ++keys) {
        const ClassExtent extent = class_extent(queries, keys, n);
        std::vector<AttentionItem> items{item_at(0, queries, keys)};
        const AttentionCall call = call_of(items, false);
        std::int64_t first = extent.keys, total = 0;
        for (std::int64_t row = 0; row < std::min(n, queries); ++row) {
          const AttentionItem made = class_item(call, items[0], row, n);
          first = std::min(first, made.keys - made.queries);
          total += made.queries;
          ASSERT_LE(made.keys, extent.keys);
        }
        ASSERT_EQ(extent.keys - extent.queries, first) << queries << " " << keys << " " << n;
        ASSERT_EQ(total, queries);
      }
}

TEST(ResidueItems, RunTogetherWhereTheyLieEvenly) {
  std::vector<AttentionItem> one{item_at(0, 8, 8)}, odd{item_at(0, 9, 9)}, two{item_at(0, 8, 8), item_at(8, 5, 5)};
  const auto sizes = [](const AttentionCall& call) {
    std::vector<std::size_t> of_parts;
    for_each_class(call, 4, [&](const AttentionCall& part) {
      EXPECT_EQ(part.q_strides.row, 40);
      of_parts.push_back(part.items.size());
    });
    return of_parts;
  };
  EXPECT_EQ(sizes(call_of(one, false)), (std::vector<std::size_t>{4}));
  EXPECT_EQ(sizes(call_of(odd, false)), (std::vector<std::size_t>{1, 3}));
  EXPECT_EQ(sizes(call_of(two, false)), (std::vector<std::size_t>{2, 2, 2, 2}));
  for (const bool packed : {false, true}) {  // fewer calls than by class
    std::vector<std::size_t> of_items;
    for_each_class(call_of(two, packed), 8, [&](const AttentionCall& part) { of_items.push_back(part.items.size()); });
    EXPECT_EQ(of_items, (std::vector<std::size_t>{8, 5})) << "of 8 rows, of 5";
  }
  std::vector<AttentionItem> equal{item_at(0, 8, 8), item_at(8, 8, 8)};
  EXPECT_EQ(sizes(call_of(equal, false)), (std::vector<std::size_t>{8})) << "class after class";
  for_each_class(call_of(equal, false), 4, [](const AttentionCall& part) {
    EXPECT_EQ(part.residues, 4);
    EXPECT_EQ(part.items[2].q - part.items[0].q, 10) << "a row on";
    EXPECT_EQ(part.items[3].q - part.items[1].q, 10);
  });
  std::vector<AttentionItem> uneven{item_at(0, 9, 9), item_at(9, 9, 9), item_at(18, 9, 9)};
  for (const bool packed : {false, true}) EXPECT_EQ(sizes(call_of(uneven, packed)), (std::vector<std::size_t>{3, 9}));
  std::vector<std::int64_t> classes;
  for_each_class(call_of(uneven, false), 4, [&](const AttentionCall& part) { classes.push_back(part.residues); });
  EXPECT_EQ(classes, (std::vector<std::int64_t>{1, 3}));
  // Packed: the rows of one run are a multiple of 4 apart in memory.
  for_each_class(call_of(two, true), 4, [](const AttentionCall& part) {
    EXPECT_EQ((part.items[1].q - part.items[0].q) % 40, 0);
    EXPECT_EQ((part.items[1].k - part.items[0].k) % 80, 0);
  });
}

TEST(ResidueItems, OfItemsThatAreAlikeTakeTheCallsThatArePlanned) {
  for (std::int64_t n = 1; n < 9; ++n)
    for (std::int64_t queries = 1; queries < 20; ++queries)
      for (std::int64_t keys = 1; keys < 20; ++keys) {
        std::vector<AttentionItem> items{item_at(0, queries, keys), item_at(100, queries, keys)};
        std::int64_t calls = 0, rows = 0;
        for_each_class(call_of(items, false), n, [&](const AttentionCall& part) {
          ++calls;
          EXPECT_EQ(std::ssize(part.items), 2 * part.residues);
          for (const AttentionItem& item : part.items) rows += item.queries;
        });
        ASSERT_EQ(calls, runs_of_classes(queries, keys, n)) << queries << " " << keys << " " << n;
        ASSERT_LE(calls, 3);
        ASSERT_EQ(rows, 2 * queries);
      }
}

// One row for all, which any order of classes serves.
TEST(ResidueItems, OfOneSharedRowNeedNoOrder) {
  std::vector<AttentionItem> items{item_at(0, 8, 8), item_at(0, 5, 5)};
  AttentionCall call = call_of(items, true);
  call.q_strides.row = 0;
  std::int64_t rows = 0;
  for_each_class(call, 4, [&](const AttentionCall& part) {
    for (const AttentionItem& item : part.items) rows += item.queries;
  });
  EXPECT_EQ(rows, 13);
}

class ByResidue : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { STOF_SKIP_WITHOUT(GetParam()); }
};

TEST_P(ByResidue, EqualsTheDefinition) {
  const Device device = open_with_two_threads(GetParam());
  const DType dtype = GetParam() == "cpu" ? DType::f32 : DType::f16;
  struct Batch {
    BatchForm form;
    std::vector<std::int32_t> queries, keys;
  };
  const Batch batches[] = {{BatchForm::heads_first, {600}, {600}},
                           {BatchForm::rows_first, {601}, {650}},
                           {BatchForm::rows_first, {600, 600}, {600, 600}},
                           {BatchForm::rows_first, {601, 601, 601}, {650, 650, 650}},
                           {BatchForm::packed, {403, 403}, {403, 403}},
                           {BatchForm::heads_first, {500, 3, 0, 77}, {502, 90, 5, 77}},
                           {BatchForm::packed, {400, 33, 1, 0, 250}, {400, 33, 2, 0, 250}}};
  for (const char* text : {"dilated(60,8)", "strided(7) & causal", "heads(0: dilated(30,8), *: strided(16))",
                           "where(q % 8 == k % 8 & q - k >= -70 * h)"})
    for (const Batch& batch : batches) {
      ProblemShape what{.shape = {.batch = std::ssize(batch.queries),
                                  .heads = 2,
                                  .kv_heads = 1,
                                  .queries = batch.queries[0],
                                  .keys = batch.keys[0],
                                  .head_dim = 64,
                                  .dtype = dtype},
                        .form = batch.form,
                        .q_lengths = batch.queries,
                        .kv_lengths = batch.keys};
      const Problem problem(what, 3);
      const Attention attention(parse(text), what.shape, device);
      if (GetParam() == "cpu") {
        EXPECT_GT(attention.plan().residues, 1) << text;
      }
      problem.poison_outputs();
      run_on(device, attention, problem);
      EXPECT_EQ(difference_from_definition(problem, parse(text)), "") << text << ", " << batch.queries[0];
    }
}

TEST_P(ByResidue, ServesMoreItemsThanPlanned) {
  const Device device = open_with_two_threads(GetParam());
  const Mask mask = parse("strided(2)");
  const DType dtype = GetParam() == "cpu" ? DType::f32 : DType::f16;
  ProblemShape what{
      .shape = {.queries = 1024, .keys = 1024, .head_dim = 64, .dtype = dtype}, .q_lengths = {}, .kv_lengths = {}};
  const Attention attention(mask, what.shape, device);
  for (const std::int64_t items : {1, 4}) {
    what.shape.batch = items;
    const Problem problem(what, 7);
    problem.poison_outputs();
    run_on(device, attention, problem);
    EXPECT_EQ(difference_from_definition(problem, mask), "") << items;
  }
}

TEST_P(ByResidue, ServesDecoding) {
  const Device device = open_with_two_threads(GetParam());
  const Mask mask = parse("dilated(40,4) & causal");
  const AttentionShape shape{.batch = 1, .heads = 2, .kv_heads = 2, .queries = 300, .keys = 300, .head_dim = 32};
  const Attention attention(mask, shape, device);
  if (GetParam() == "cpu") {
    ASSERT_GT(attention.plan().residues, 1);
  }
  for (const std::int32_t keys : {300, 299, 17, 1}) {
    ProblemShape what{.shape = shape, .q_lengths = {1}, .kv_lengths = {keys}};
    what.shape.queries = 1, what.shape.keys = keys;
    const Problem problem(what, 7);
    problem.poison_outputs();
    run_on(device, attention, problem);
    EXPECT_EQ(difference_from_definition(problem, mask), "") << keys;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, ByResidue, testing::Values("cpu", "cuda"), [](const auto& the) { return the.param; });

}  // namespace
}  // namespace stof
