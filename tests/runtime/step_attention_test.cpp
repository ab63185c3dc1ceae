// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/step_attention.h"

#include <gtest/gtest.h>

#include "src/fusion/fuse.h"
#include "src/graph/build.h"
#include "src/graph/simplify.h"
#include "src/runtime/program.h"
#include "stof/mask.h"
#include "tests/runtime/recording_device.h"
#include "tests/runtime/small_decoder.h"

namespace stof {
namespace {

AttentionShape step_of(std::int64_t texts, std::int64_t keys) {
  return {.batch = texts, .heads = 32, .kv_heads = 8, .queries = 1, .keys = keys, .head_dim = 128, .dtype = DType::f16};
}

// The choice without a launch in front is another one: few keys, few texts.
TEST(StepAttention, ReadsLengthsWhereTheyLie) {
  for (const char* name : {"cuda:h200", "cuda:h100", "cuda:a100"}) {
    const Device device = open_device(name);
    int others = 0;
    for (const bool capped : {false, true})
      for (const char* mask : {"causal", "causal & window(100)", "causal & (window(60) | sink(4))"})
        for (const std::int64_t texts : {1, 2, 4, 8, 64})
          for (const std::int64_t keys : {64, 256, 1024, 8192}) {
            AttentionShape shape = step_of(texts, keys);
            shape.capped = capped;
            others += Attention(parse(mask), shape, device).plan().kernel != "decode_attention";
            const Attention step = plan_step(parse(mask), shape, device);
            EXPECT_EQ(step.plan().kernel, "decode_attention") << name << " " << mask << ", " << texts << " of " << keys;
            step.prepare(1, 1);
          }
    EXPECT_TRUE(others > 0 || device.caps.arch < 90) << name;
  }
}

// Of what no such kernel takes, or takes in much more time, and where nothing is beside the host.
TEST(StepAttention, IsElseAsChosen) {
  const Device h200 = open_device("cuda:h200");
  AttentionShape in_f32 = step_of(1, 64), of_any_width = step_of(1, 64), many_rows = step_of(1, 200);
  in_f32.dtype = DType::f32, of_any_width.head_dim = 44, many_rows.queries = 200;
  for (const AttentionShape& shape : {in_f32, of_any_width, many_rows})
    EXPECT_EQ(plan_step(causal(), shape, h200).plan(), Attention(causal(), shape, h200).plan());
  AttentionShape wide = step_of(64, 8192);
  wide.kv_heads = 32, wide.queries = 16;
  const Mask narrow = parse("causal & window(40)");
  EXPECT_NE(plan_step(narrow, wide, h200).plan().kernel, "decode_attention");
  EXPECT_EQ(plan_step(narrow, wide, h200).plan(), Attention(narrow, wide, h200).plan());
  for (const Device& device : {open_device("cpu"), recording_device()}) {
    const AttentionShape shape = step_of(2, 64);
    EXPECT_EQ(plan_step(causal(), shape, device).plan(), Attention(causal(), shape, device).plan());
  }
}

// What stands for a plan where none is made.
TEST(StepAttention, IsPredictedAsPlanned) {
  for (const char* name : {"cuda:h200", "cuda:a100"})
    for (const char* mask : {"causal", "causal & window(100)", "causal & dilated(8,2)"})
      for (const std::int64_t texts : {1, 8})
        for (const std::int64_t keys : {64, 1024}) {
          const Device device = open_device(name);
          const AttentionShape shape = step_of(texts, keys);
          EXPECT_EQ(choose_step(parse(mask), shape, device).predicted_us,
                    plan_step(parse(mask), shape, device).plan().predicted_us)
              << name << " " << mask << ", " << texts << " of " << keys;
        }
}

// Where keys are few, and a rule says which.
TEST(StepAttention, IsJoinedWithWhatStandsAroundIt) {
  const Device h200 = open_device("cuda:h200");
  const auto joined = [&](const char* mask, const AttentionShape& shape) {
    return join_step(parse(mask), shape, h200);
  };
  const auto causal = joined("causal", step_of(2, 256));
  ASSERT_TRUE(causal.has_value());
  EXPECT_EQ(*causal, (TokenAttentionShape{.texts = 2,
                                          .heads = 32,
                                          .kv_heads = 8,
                                          .head_dim = 128,
                                          .keys = 256,
                                          .allowed = SpanRule{},
                                          .dtype = DType::f16}));
  EXPECT_EQ(keys_seen(*causal), 256);
  const auto windowed = joined("causal & (window(100) | sink(4))", step_of(1, 8192));
  ASSERT_TRUE(windowed.has_value());
  EXPECT_EQ(windowed->allowed, (SpanRule{.prefix_end = 4, .begin = -100}));
  EXPECT_EQ(keys_seen(*windowed), 105);
  EXPECT_EQ(joined("causal & dilated(8,2)", step_of(2, 256)), std::nullopt);
  EXPECT_EQ(joined("causal", step_of(2, 1 << 16)), std::nullopt);
  AttentionShape other = step_of(2, 256), capped = other, biased = other;
  other.dtype = DType::f32, capped.capped = true, biased.biased = true;
  for (const AttentionShape& shape : {other, capped, biased}) EXPECT_EQ(joined("causal", shape), std::nullopt);
  EXPECT_EQ(join_step(parse("causal"), step_of(2, 256), open_device("cpu")), std::nullopt);
}

// Which takes every step of a mask that a rule describes.
const TokenAttention& joining() {
  static const TokenAttention all{
      .refuses = [](const TokenAttentionShape&, const DeviceCaps&) { return std::optional<std::string>(); },
      .predicted_us = [](const TokenAttentionShape&, const DeviceCaps&) { return 0.; },
      .prepare = [](const TokenAttentionShape&, const Device&) {},
      .run = nullptr};
  return all;
}

TEST(StepAttention, IsNotPlannedApartWhereItIsJoined) {
  Backend backend = recording_backend();
  backend.token_attention = &joining();
  Device device = recording_device();
  device.backend = &backend;
  const Model model = small_decoder({4, 2, 64, false});
  const Graph graph = fused_by_default(build_graph(model, GraphResult::logits));
  const auto steps_under = [&](const char* mask, auto expect) {
    const Program program(restrict_attention(graph, parse(mask)), {.device = device, .longest = kLongest});
    const std::int64_t before = program.plans_made();
    const StepPlans& plans = program.step_plans(4, 64);
    ASSERT_EQ(plans.attention.size(), 1U);
    ASSERT_EQ(plans.joined.size(), 1U);
    expect(plans, program.plans_made() - before);
  };
  for (const char* mask : {"all", "window(6) | sink(2)"})
    steps_under(mask, [](const StepPlans& plans, std::int64_t made) {
      EXPECT_TRUE(plans.joined[0].has_value());
      EXPECT_EQ(plans.attention[0], nullptr);
      EXPECT_EQ(made, 0);
    });
  for (const char* mask : {"dilated(9,2)", "documents([0,5,30,150])"})
    steps_under(mask, [](const StepPlans& plans, std::int64_t made) {
      EXPECT_FALSE(plans.joined[0].has_value());
      EXPECT_NE(plans.attention[0], nullptr);
      EXPECT_GT(made, 0);
    });
}

}  // namespace
}  // namespace stof
