// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/step_attention.h"

#include <gtest/gtest.h>

#include "stof/mask.h"
#include "tests/runtime/recording_device.h"

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
    for (const char* mask : {"causal", "causal & window(100)", "causal & (window(60) | sink(4))"})
      for (const std::int64_t texts : {1, 2, 4, 8, 64})
        for (const std::int64_t keys : {64, 256, 1024, 8192}) {
          const AttentionShape shape = step_of(texts, keys);
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

}  // namespace
}  // namespace stof
