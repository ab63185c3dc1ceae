// SPDX-License-Identifier: Apache-2.0
// What a run promises besides its values: the same bits for any number of threads, items alone as in a batch, plans
// that are kept.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <thread>
#include <utility>

#include "tests/attention/devices.h"
#include "tests/attention/expect_attention.h"
#include "tests/expect_error.h"

namespace stof {
namespace {

Device device_with(int cores) {
  Device device = open_device("cpu");
  device.caps.cores = cores;
  return device;
}

std::vector<std::byte> bits_of(const Problem& problem) {
  std::vector<std::byte> bits;
  const auto add = [&](const TensorView& view) {
    const auto* begin = static_cast<const std::byte*>(view.data);
    bits.insert(bits.end(), begin, begin + element_count(view.shape) * static_cast<std::int64_t>(size_of(view.dtype)));
  };
  add(problem.out);
  add(problem.lse_view);
  return bits;
}

ProblemShape ragged(DType dtype) {
  return {.shape = {.batch = 3, .heads = 4, .kv_heads = 2, .queries = 300, .keys = 300, .head_dim = 48, .dtype = dtype},
          .form = BatchForm::packed,
          .q_lengths = {300, 17, 140},
          .kv_lengths = {300, 17, 140}};
}

TEST(Run, SameBitsForAnyNumberOfThreads) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const char* kernel : {"block_attention", "row_attention"}) {
      const Problem problem(ragged(dtype), 4);
      std::vector<std::byte> one;
      for (const int cores : {1, 2, 3, 8}) {
        problem.poison_outputs();
        Attention(longformer(32, 4), problem.what().shape, device_with(cores), {.kernel = kernel})
            .run(problem.arguments());
        if (cores == 1) one = bits_of(problem);
        EXPECT_TRUE(one == bits_of(problem)) << kernel << " " << name_of(dtype) << " " << cores;
      }
    }
}

// The layout of the longest item serves the shorter ones: positions are item-local.
TEST(Run, AnItemInARaggedBatchEqualsTheItemAlone) {
  const Problem problem(ragged(DType::f32), 5);
  const Device device = open_device("cpu");
  for (const Mask& mask : {longformer(32, 4), causal() & window(50), bigbird(16, 3, 2, 2, 1)}) {
    problem.poison_outputs();
    Attention(mask, problem.what().shape, device).run(problem.arguments());
    EXPECT_EQ(difference_from_definition(problem, mask), "") << mask.text();
  }
}

TEST(Run, DecodesAtAnyLengthWithOnePlan) {
  for (const char* kernel : {"auto", "block_attention", "row_attention"}) {
    const Attention attention(causal() & window(40),
                              {.batch = 1, .heads = 2, .kv_heads = 1, .queries = 1, .keys = 200, .head_dim = 32},
                              open_device("cpu"), {.kernel = kernel});
    for (const std::int32_t keys : {200, 199, 64, 1, 0, 150}) {
      const Problem problem({.shape = {.heads = 2, .kv_heads = 1, .queries = 1, .keys = 200, .head_dim = 32},
                             .q_lengths = {1},
                             .kv_lengths = {keys}},
                            static_cast<unsigned>(keys));
      attention.run(problem.arguments());
      EXPECT_EQ(difference_from_definition(problem, causal() & window(40)), "") << kernel << " " << keys;
    }
  }
}

TEST(Run, MoreQueriesThanKeys) {
  const Problem problem({.shape = {.batch = 3, .queries = 90, .keys = 90, .head_dim = 8},
                         .q_lengths = {90, 80, 5},
                         .kv_lengths = {10, 90, 0}},
                        7);
  const Attention attention(window(30), problem.what().shape, open_device("cpu"));
  attention.run(problem.arguments());
  EXPECT_EQ(difference_from_definition(problem, window(30)), "");
  EXPECT_EQ(attention.plans_made(), 2);  // one more for items with fewer keys beside their queries
}

// The one that has the positions of all: so they go in one launch.
TEST(Run, ItemsThatBeginAtSeveralPositionsGoByOnePlan) {
  const AttentionShape shape{.batch = 3, .queries = 90, .keys = 300, .head_dim = 8};
  for (const auto& [lengths, made] :
       {std::pair{std::vector<std::int32_t>{300, 90, 200}, 2}, {{300, 80, 200}, 2}, {{300, 300, 0}, 1}}) {
    const Problem problem({.shape = shape, .q_lengths = {90, 90, 20}, .kv_lengths = lengths}, 5);
    const Attention attention(causal(), shape, open_device("cpu"));
    AttentionArguments arguments = problem.arguments();
    std::vector<std::shared_ptr<const void>> plans;
    arguments.plans_used = &plans;
    attention.run(arguments);
    EXPECT_EQ(difference_from_definition(problem, causal()), "");
    EXPECT_EQ(plans.size(), 1U);
    EXPECT_EQ(attention.plans_made(), made);
  }
}

// A run that may plan makes the same plans whatever was prepared, and so the same bits.
TEST(Run, WhatIsPreparedForEveryPositionServesWhereNothingMayBePlanned) {
  const AttentionShape shape{.queries = 64, .keys = 100, .head_dim = 8};
  const Problem problem({.shape = shape, .q_lengths = {10}, .kv_lengths = {20}}, 5);
  for (const bool may_plan : {false, true}) {
    const Attention attention(causal(), shape, open_device("cpu"));
    attention.prepare(64, 1);
    EXPECT_EQ(attention.plans_made(), 2);
    AttentionArguments arguments = problem.arguments();
    arguments.may_plan = may_plan;
    attention.run(arguments);
    EXPECT_EQ(difference_from_definition(problem, causal()), "");
    EXPECT_EQ(attention.plans_made(), may_plan ? 3 : 2);
  }
}

// A mask of 6 x 6 tokens has one plan per length that it fits, made when it is first seen.
TEST(Run, AMaskThatDependsOnLengthIsPlannedForEachLength) {
  const Mask mask = where("q < 20") | bigbird(8, 1, 3, 1, 2);
  ASSERT_TRUE(depends_on_length(mask));
  const Problem problem(ragged(DType::f32), 6);
  Attention(mask, problem.what().shape, open_device("cpu")).run(problem.arguments());
  EXPECT_EQ(difference_from_definition(problem, mask), "");
}

// Beside it, what was made for the longest item has its beginning in shorter ones, as it has by itself.
TEST(Run, WhatIsMadeForTheLongestItemServesShorterOnesBesideWhatDependsOnLength) {
  const Tensor ids(DType::i32, {300}), table(DType::boolean, {10, 10});
  for (std::int64_t i = 0; i < 300; ++i) ids.as<std::int32_t>()[i] = static_cast<std::int32_t>(i / 90) - 1;
  for (std::int64_t i = 0; i < 100; ++i) table.as<std::uint8_t>()[i] = i % 3 != 1;
  std::vector<std::int64_t> parents;
  for (std::int64_t i = 0; i < 300; ++i) parents.push_back(i == 0 ? -1 : i / 2);
  const Mask drawn = bigbird(8, 1, 3, 1, 2);
  const Problem problem(ragged(DType::f32), 6);
  for (const Mask& mask : {document_ids(ids.view()) & drawn, blocks(32, table.view()) & random_blocks(8, 3, 0),
                           tree(parents) | drawn, documents({0, 12, 150}) & !drawn}) {
    problem.poison_outputs();
    Attention(mask, problem.what().shape, open_device("cpu")).run(problem.arguments());
    EXPECT_EQ(difference_from_definition(problem, mask), "") << mask.text();
  }
}

// What a recorded graph reads is not dropped with the plans that others need, and is not planned in its place.
TEST(Run, PlansOfLengthsOutliveOthersForWhoeverHoldsThem) {
  const AttentionShape shape{.queries = 300, .keys = 300, .head_dim = 8};
  const Attention attention(bigbird(8, 1, 3, 1, 2), shape, open_device("cpu"));
  const auto of_length = [&](std::int32_t length) {
    return Problem({.shape = shape, .q_lengths = {length}, .kv_lengths = {length}}, 3);
  };
  const Problem problem = of_length(10);
  AttentionArguments arguments = problem.arguments();
  std::vector<std::shared_ptr<const void>> plans;
  arguments.plans_used = &plans;
  for (int run = 0; run < 2; ++run) attention.run(arguments);
  ASSERT_EQ(plans.size(), 1U);  // each once
  EXPECT_GT(plans.front().use_count(), 1);
  for (std::int32_t length = 20; length < 290; ++length) attention.run(of_length(length).arguments());
  EXPECT_EQ(plans.front().use_count(), 1);
  arguments.may_plan = false;
  EXPECT_ERROR(
      attention.run(arguments), ErrorKind::invalid_argument,
      "attention: 10 queries and 10 keys need a plan of their own, which this call may not make; prepare them");
}

// A run takes no room from what was prepared, and what runs have made takes none from what is still to be prepared.
TEST(Run, WhatIsPreparedStays) {
  const AttentionShape shape{.queries = 600, .keys = 600, .head_dim = 8};
  const Attention attention(random_blocks(8, 1, 1), shape, open_device("cpu"));
  const auto run = [&](std::int32_t length, bool may_plan) {
    const Problem problem({.shape = shape, .q_lengths = {length}, .kv_lengths = {length}}, 3);
    AttentionArguments arguments = problem.arguments();
    arguments.may_plan = may_plan;
    attention.run(arguments);
  };
  for (std::int32_t length = 1; length <= 256; ++length) run(length, true);
  attention.prepare(10, 10);  // made by a run before, and kept from here on
  for (std::int32_t length = 301; length < 556; ++length) attention.prepare(length, length);
  EXPECT_EQ(attention.plans_made(), 1 + 256 + 255);
  EXPECT_ERROR(attention.prepare(556, 556), ErrorKind::unsupported,
               "attention: 256 pairs of lengths are prepared, the most that there can be");
  for (const std::int32_t length : {257, 258, 2, 3}) run(length, true);
  const std::int64_t made = attention.plans_made();
  for (const std::int32_t length : {10, 301, 555}) run(length, false);
  EXPECT_EQ(attention.plans_made(), made);
  EXPECT_ERROR(run(4, false), ErrorKind::invalid_argument,
               "attention: 4 queries and 4 keys need a plan of their own, which this call may not make; prepare them");
}

// What every test of results leans on: one value that is missing is seen, in whatever row.
TEST(Run, TheComparisonSeesOneNaN) {
  const AttentionShape shape{.heads = 2, .kv_heads = 2, .queries = 40, .keys = 40, .head_dim = 8};
  const Problem problem({.shape = shape, .q_lengths = {}, .kv_lengths = {}}, 4);
  Attention(causal(), shape, open_device("cpu")).run(problem.arguments());
  ASSERT_EQ(difference_from_definition(problem, causal()), "");
  const AttentionItem item = problem.items()[0];
  float* const lse = problem.lse_view.as<float>() + item.lse + 17 * problem.lse_view.strides[2];
  const float right = std::exchange(*lse, std::nanf(""));
  EXPECT_NE(difference_from_definition(problem, causal()), "");
  *lse = right;
  const float value = problem.get(problem.out, item.out, 0, 17, 3);
  problem.set(problem.out, item.out, 0, 17, 3, std::nanf(""));
  EXPECT_NE(difference_from_definition(problem, causal()), "");
  problem.set(problem.out, item.out, 0, 17, 3, value);
  EXPECT_EQ(difference_from_definition(problem, causal()), "");
}

// Arrays over positions are made for the longest item.
TEST(Run, AShorterItemUsesTheBeginningOfAnArray) {
  const Problem problem(ragged(DType::f32), 9);
  const AttentionShape& shape = problem.what().shape;
  Tensor ids(DType::i32, {shape.batch, shape.keys});
  for (std::int64_t i = 0; i < ids.size(); ++i) ids.as<std::int32_t>()[i] = i % shape.keys < 7 ? 0 : 1;
  const Mask by_id = document_ids(ids.view());
  const Attention attention(by_id, shape, open_device("cpu"));
  attention.run(problem.arguments());
  EXPECT_EQ(difference_from_definition(problem, documents({0, 7})), "");
  EXPECT_EQ(attention.plans_made(), 1);
}

TEST(Run, IsThreadSafe) {
  const Mask mask = bigbird(8, 1, 3, 1, 2);  // plans inside run()
  const Attention attention(mask, ragged(DType::f32).shape, device_with(1));
  std::vector<std::unique_ptr<Problem>> problems;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) problems.push_back(std::make_unique<Problem>(ragged(DType::f32), i));
  for (const auto& problem : problems)
    threads.emplace_back([&attention, &problem] { attention.run(problem->arguments()); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& problem : problems) EXPECT_EQ(difference_from_definition(*problem, mask), "");
}

TEST(Run, AnyNumberOfItemsWhenTheMaskIsTheSameForAll) {
  const Problem problem(
      {.shape = {.batch = 5, .queries = 20, .keys = 20, .head_dim = 16}, .q_lengths = {}, .kv_lengths = {}}, 8);
  AttentionShape one = problem.what().shape;
  one.batch = 1;
  Attention(causal(), one, open_device("cpu")).run(problem.arguments());
  EXPECT_EQ(difference_from_definition(problem, causal()), "");
}

// bf16 is multiplied by matrix registers, or in pairs, where the processor can, that pays and the head dimension allows
// it, else widened to float.
TEST(Run, Bf16ByEveryInstructionThereIs) {
  const DeviceCaps here = open_device("cpu").caps;
  for (const auto& [has_matrix, has_dot] :
       {std::pair{here.bf16_matrix, here.bf16_dot}, {false, here.bf16_dot}, {false, false}})
    for (const std::int64_t head_dim : {2, 33, 64, 96, 128}) {
      ProblemShape shape = ragged(DType::bf16);
      shape.shape.head_dim = head_dim;
      shape.kv_lengths = {299, 17, 141};
      const Problem problem(shape, static_cast<unsigned>(head_dim));
      Device device = device_with(2);
      device.caps.bf16_dot = has_dot;
      device.caps.bf16_matrix = has_matrix;
      for (const Mask& mask : {causal(), longformer(5, 3)}) {
        problem.poison_outputs();
        Attention(mask, shape.shape, device, {.kernel = "block_attention"}).run(problem.arguments());
        EXPECT_EQ(difference_from_definition(problem, mask), "") << has_dot << " " << head_dim << " " << mask.text();
      }
    }
}

void multiply_queries(const Problem& problem, float factor) {
  const AttentionShape& shape = problem.what().shape;
  for (const AttentionItem& item : problem.items())
    for (std::int64_t head = 0; head < shape.heads; ++head)
      for (std::int64_t row = 0; row < item.queries; ++row)
        for (std::int64_t c = 0; c < shape.head_dim; ++c)
          problem.set(problem.q, item.q, head, row, c, factor * problem.get(problem.q, item.q, head, row, c));
}

TEST(Run, AScaleMayBeNegativeOrZero) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const float sign : {-1.f, 0.f}) {
      const Problem scaled(ragged(dtype), 3), multiplied(ragged(dtype), 3);
      multiply_queries(multiplied, sign);
      const Attention attention(longformer(9, 2), scaled.what().shape, device_with(1), {.kernel = "block_attention"});
      AttentionArguments arguments = scaled.arguments();
      arguments.scale = sign * 0.25f;
      attention.run(arguments);
      arguments = multiplied.arguments();
      arguments.scale = 0.25f;
      attention.run(arguments);
      EXPECT_TRUE(bits_of(scaled) == bits_of(multiplied)) << name_of(dtype) << " " << sign;
    }
}

class RunOn : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { STOF_SKIP_WITHOUT(GetParam()); }
};

// Items of one plan lie apart where those of another are between them: their logarithms have memory for their own rows.
TEST_P(RunOn, PackedItemsOfSeveralPlansHaveTheirLogarithms) {
  const Device device = open_device(GetParam());
  const Mask mask = bigbird(64, 3, 2, 3, 1);
  const Problem problem({.shape = {.batch = 3,
                                   .heads = 12,
                                   .kv_heads = 12,
                                   .queries = 1000,
                                   .keys = 1000,
                                   .head_dim = 64,
                                   .dtype = GetParam() == "cpu" ? DType::f32 : DType::f16},
                         .form = BatchForm::packed,
                         .q_lengths = {64, 1000, 64},
                         .kv_lengths = {64, 1000, 64}},
                        5);
  const Attention attention(mask, problem.what().shape, device);
  problem.poison_outputs();
  run_on(device, attention, problem);
  EXPECT_EQ(difference_from_definition(problem, mask), "");
}

INSTANTIATE_TEST_SUITE_P(Devices, RunOn, testing::Values("cpu", "cuda"), [](const auto& the) { return the.param; });

}  // namespace
}  // namespace stof
