// SPDX-License-Identifier: Apache-2.0
// Steps of a server: items that decode beside chunks of prompts, in one call of a plan for the chunks.
#include "src/attention/few_queries.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "src/attention/call_plans.h"
#include "tests/attention/devices.h"
#include "tests/attention/expect_attention.h"

namespace stof {
namespace {

AttentionShape shape_of(std::int64_t queries, std::int64_t keys, int head_dim, DType dtype) {
  return {
      .batch = 8, .heads = 8, .kv_heads = 2, .queries = queries, .keys = keys, .head_dim = head_dim, .dtype = dtype};
}

std::vector<AttentionItem> items_of(std::int64_t count, std::int64_t queries, std::int64_t keys) {
  return std::vector<AttentionItem>(static_cast<std::size_t>(count), {.queries = queries, .keys = keys});
}

TEST(FewQueries, HaveAKernelWhereThePlanIsForMore) {
  const Device gpu = open_device("cuda:h200");
  const auto possible = [&](std::int64_t queries, DType dtype, const char* kernel, const Device& device) {
    return FewQueries(shape_of(queries, 4096, 128, dtype), device, kernel).possible();
  };
  EXPECT_TRUE(possible(512, DType::f16, "auto", gpu));
  EXPECT_FALSE(possible(16, DType::f16, "auto", gpu)) << "the plan is for few itself";
  EXPECT_FALSE(possible(512, DType::f32, "auto", gpu)) << "in 16 bits alone";
  EXPECT_FALSE(possible(512, DType::f16, "stream_attention", gpu)) << "asked for";
  EXPECT_FALSE(possible(512, DType::f16, "auto", open_device("cpu")));
}

// By bench/results/h200-few-queries.txt.
TEST(FewQueries, GoApartWhereThatIsSooner) {
  AttentionShape shape = shape_of(512, 32768, 128, DType::f16);
  shape.heads = 32, shape.kv_heads = 8;
  const FewQueries few(shape, open_device("cuda:h200"), "auto");
  const auto beside_a_chunk = [&](std::int64_t count, std::int64_t keys) {
    std::vector<AttentionItem> items = items_of(count, 1, keys);
    items.push_back({.queries = 512, .keys = 4096});
    return few.pays(items, false);
  };
  EXPECT_FALSE(beside_a_chunk(1, 1024)) << "60.7 us together, 60.9 apart";
  EXPECT_TRUE(beside_a_chunk(1, 4096)) << "89.6 us together, 66.7 apart";
  EXPECT_FALSE(beside_a_chunk(4, 512)) << "58.1 us together, 64.2 apart";
  EXPECT_TRUE(beside_a_chunk(4, 4096)) << "91.3 us together, 81.0 apart";
  EXPECT_TRUE(beside_a_chunk(16, 128)) << "68.5 us together, 58.7 apart";
  EXPECT_TRUE(few.pays(items_of(1, 1, 512), false)) << "alone, 10.6 us by tiles of 64 rows, 5.7 by a kernel for few";
  EXPECT_FALSE(few.pays(items_of(1, 1, 128), false)) << "alone, 3.6 us and 4.2";
  EXPECT_FALSE(few.pays(items_of(8, 17, 4096), false));
  // Heads with keys of their own: what the one reads takes as long as what the other multiplies, and both at once less.
  shape.heads = shape.kv_heads = 12;
  std::vector<AttentionItem> step = items_of(8, 1, 2126);
  step.push_back({.queries = 1139, .keys = 1139});
  EXPECT_FALSE(FewQueries(shape, open_device("cuda:h200"), "auto").pays(step, false));
  EXPECT_FALSE(few.are_of({.queries = 4, .keys = 3})) << "its first row is in front of the first key";
}

// By bench/results/h200-side-by-side.txt: what one call takes, and two launches beside each other.
TEST(FewQueries, GoApartMoreOftenSideBySide) {
  const auto pays = [](const AttentionShape& shape, std::vector<AttentionItem> items, bool side_by_side = true) {
    return FewQueries(shape, open_device("cuda:h200"), "auto").pays(items, side_by_side);
  };
  AttentionShape shape = shape_of(2048, 32768, 128, DType::bf16);
  shape.heads = shape.kv_heads = 12;
  const std::vector<AttentionItem> step = {{.queries = 1, .keys = 195}, {.queries = 1, .keys = 230},
                                           {.queries = 1, .keys = 260}, {.queries = 1, .keys = 300},
                                           {.queries = 1, .keys = 323}, {.queries = 993, .keys = 2197}};
  EXPECT_TRUE(pays(shape, step)) << "44.6 us in one, 32.4 side by side";
  EXPECT_FALSE(pays(shape, step, false)) << "48.6 us one behind the other";
  shape.heads = 16, shape.kv_heads = 2;
  EXPECT_FALSE(pays(shape, {{.queries = 1, .keys = 247},
                            {.queries = 111, .keys = 963},
                            {.queries = 48, .keys = 48},
                            {.queries = 218, .keys = 343},
                            {.queries = 1578, .keys = 1858}}))
      << "38.4 us in one, 46.2 side by side";
}

TEST(FewQueries, ArePreparedByTheirNumber) {
  const auto plans = [](std::int64_t queries, std::int64_t keys, std::int64_t batch, const Mask& mask = causal()) {
    AttentionShape shape = shape_of(512, 4096, 128, DType::f16);
    shape.batch = batch;
    const Attention attention(mask, shape, open_device("cuda:h200"));
    attention.prepare(queries, keys);
    attention.prepare(queries, keys);
    return attention.plans_made() - 1;
  };
  EXPECT_EQ(plans(1, 1, 1), 2) << "theirs, and the first one for each position";
  EXPECT_EQ(plans(1, 4096, 1), 1) << "the first plan has this position";
  EXPECT_EQ(plans(1, 4096, 8), 2) << "theirs, and one that was chosen for one chunk beside them";
  EXPECT_EQ(plans(1, 1, 8), 4) << "and both for each position";
  EXPECT_EQ(plans(512, 1, 8), 1);
  EXPECT_EQ(plans(0, 0, 8), 0);
  EXPECT_EQ(plans(1, 100, 8, bigbird(64, 1, 3, 1, 2)), 1) << "of this length alone";
}

// Lists of the device bring no items of few queries to a plan that a run made by chance.
TEST(FewQueries, OfListsGoByWhatWasPrepared) {
  CallPlans plans(causal(), shape_of(512, 4096, 128, DType::f16), open_device("cuda:h200"), "auto");
  EXPECT_NE(plans.plan_of_few(items_of(8, 1, 4096), {}, false), nullptr);
  EXPECT_EQ(plans.few_of_lists(), std::pair(CallPlans::Plan(), std::int64_t{0}));
  plans.prepare(4, 1);
  EXPECT_NE(plans.few_of_lists().first, nullptr);
  EXPECT_EQ(plans.few_of_lists().second, 4);
}

// Whether a call is refused does not hang on what it is estimated to take.
TEST(FewQueries, GoApartWhereNoOtherPlanHasTheirPositions) {
  CallPlans plans(causal(), shape_of(512, 4096, 128, DType::f16), open_device("cuda:h200"), "auto");
  std::vector<AttentionItem> items = items_of(1, 1, 100);
  items.push_back({.queries = 512, .keys = 4096});
  AttentionArguments arguments;
  arguments.may_plan = false;
  EXPECT_EQ(plans.plan_of_few(items, arguments, false), nullptr) << "not prepared";
  plans.prepare(1, 4096);
  EXPECT_NE(plans.plan_of_few(items, arguments, false), nullptr);
  plans.prepare(512, 1);
  EXPECT_EQ(plans.plan_of_few(items, arguments, false), nullptr) << "one launch is sooner";
}

using StepCase = std::tuple<std::string, int, DType>;  // device, head_dim, storage

class Steps : public testing::TestWithParam<StepCase> {
 protected:
  void SetUp() override { STOF_SKIP_WITHOUT(std::get<0>(GetParam())); }

  // Items of the positions that they were planned for, shorter ones, ones in front of the first key, and no rows.
  static ProblemShape step(BatchForm form, std::int64_t page_size) {
    return {.shape = shape_of(200, 3000, std::get<1>(GetParam()), std::get<2>(GetParam())),
            .form = form,
            .q_lengths = {1, 200, 16, 1, 4, 90, 0, 3},
            .kv_lengths = {2951, 1023, 700, 65, 4, 2600, 17, 2},
            .page_size = page_size};
  }
  // Before items of one query were prepared and after it, when they have a plan more.
  static void expect_definition(const ProblemShape& what, const Mask& mask) {
    const Device device = open_device(std::get<0>(GetParam()));
    const Attention attention(mask, what.shape, device);
    attention.prepare(what.shape.queries, 1);
    const Problem problem(what, 3);
    AttentionArguments arguments = problem.arguments();
    arguments.may_plan = false;
    std::size_t plans_before = 0;
    for (const bool prepared : {false, true}) {
      if (prepared) attention.prepare(1, 1);
      std::vector<std::shared_ptr<const void>> plans;
      arguments.plans_used = &plans;
      problem.poison_outputs();
      run_host_tensors(attention, arguments, device);
      EXPECT_EQ(difference_from_definition(problem, mask, 7), "")
          << mask.text() << ", pages of " << what.page_size << (prepared ? ", prepared" : "");
      if (prepared) {
        EXPECT_GT(plans.size(), plans_before) << mask.text() << ", pages of " << what.page_size;
      }
      plans_before = plans.size();
    }
  }
};

TEST_P(Steps, EqualTheDefinition) {
  for (const auto& [form, page_size] : {std::pair{BatchForm::packed, 16},
                                        {BatchForm::packed, 64},
                                        {BatchForm::packed, 0},
                                        {BatchForm::rows_first, 128},
                                        {BatchForm::heads_first, 0}})
    for (const char* mask : {"causal", "causal & (window(300) | sink(2))"})
      expect_definition(step(form, page_size), parse(mask));
}

// A plan of its own, where the first one was chosen for more.
TEST_P(Steps, EqualTheDefinitionWhereOneChunkIsThere) {
  for (const auto& [form, page_size] : {std::pair{BatchForm::packed, 64}, {BatchForm::rows_first, 0}})
    for (const std::int32_t keys : {3000, 777}) {
      ProblemShape what = step(form, page_size);
      what.q_lengths[5] = 1, what.kv_lengths[1] = keys;
      expect_definition(what, parse("causal"));
      expect_definition(what, parse("causal & (window(300) | sink(2))"));
    }
}

TEST_P(Steps, EqualTheDefinitionUnderMasksOfHeadsAndItems) {
  expect_definition(step(BatchForm::packed, 64), parse("heads(0-2: causal, *: causal & window(200,3))"));
  expect_definition(step(BatchForm::packed, 0), parse("causal & where(b % 2 == 0 | k % 3 != 1)"));
}

TEST_P(Steps, EqualTheDefinitionWhereScoresAreCapped) {
  ProblemShape what = step(BatchForm::packed, 64);
  what.softcap = 5;
  expect_definition(what, parse("causal"));
}

// More items of few queries than a launch has parameters for, and rows of a task for each form of their kernel, beside
// chunks.
TEST_P(Steps, EqualTheDefinitionOfManyItems) {
  for (const std::int32_t most : {1, 5, 16}) {
    ProblemShape what = step(BatchForm::packed, most == 5 ? 16 : 64);
    what.shape.batch = 150, what.shape.keys = 600;
    what.q_lengths.clear(), what.kv_lengths.clear();
    for (std::int32_t item = 0; item < 150; ++item) {
      what.q_lengths.push_back(item % 70 == 69 ? 200 - item : 1 + item % most);
      what.kv_lengths.push_back(200 + 37 * item % 300);
    }
    expect_definition(what, parse("causal"));
  }
}

// No chunk is there; and no key of any item.
TEST_P(Steps, EqualTheDefinitionOfItemsThatDecodeAlone) {
  ProblemShape what = step(BatchForm::packed, 16);
  what.q_lengths = {1, 1, 2, 1, 0, 16, 1, 7};
  const Device device = open_device(std::get<0>(GetParam()));
  const Attention attention(causal(), what.shape, device);
  for (const auto& lengths : {std::vector<std::int32_t>{2951, 1, 700, 65, 4, 2600, 17, 7},
                              std::vector<std::int32_t>{0, 0, 0, 0, 0, 0, 0, 0}}) {
    what.kv_lengths = lengths;
    const Problem problem(what, 4);
    run_on(device, attention, problem);
    EXPECT_EQ(difference_from_definition(problem, causal()), "");
  }
}

// Which items are few the device alone knows. Prepared for one query, those of more go with the chunks.
TEST_P(Steps, EqualTheDefinitionOfListsOfTheDevice) {
  const Device device = open_device(std::get<0>(GetParam()));
  for (const std::int64_t prepared : {1, 16})
    for (const auto& [form, page_size] :
         {std::pair{BatchForm::packed, 64}, {BatchForm::packed, 0}, {BatchForm::heads_first, 16}}) {
      ProblemShape what = step(form, page_size);
      what.lists_on_device = true;
      const Attention attention(causal(), what.shape, device);
      attention.prepare(what.shape.queries, 1);
      attention.prepare(prepared, 1);
      const Problem problem(what, 3);
      AttentionArguments arguments = problem.arguments();
      std::vector<std::shared_ptr<const void>> plans;
      arguments.plans_used = &plans;
      run_host_tensors(attention, arguments, device);
      EXPECT_EQ(difference_from_definition(problem, causal(), 7), "")
          << "prepared for " << prepared << ", form " << static_cast<int>(form);
      EXPECT_EQ(plans.size(), 2U);
      EXPECT_EQ(problem.status().wrong_items, 0);
    }
}

INSTANTIATE_TEST_SUITE_P(Cuda, Steps,
                         testing::Combine(testing::Values("cuda"), testing::Values(64, 128, 200),
                                          testing::Values(DType::f16, DType::bf16)),
                         [](const auto& of) {
                           return fmt::format("d{}_{}", std::get<1>(of.param), name_of(std::get<2>(of.param)));
                         });

}  // namespace
}  // namespace stof
