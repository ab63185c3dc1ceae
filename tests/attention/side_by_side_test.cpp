// SPDX-License-Identifier: Apache-2.0
// Steps of a server whose chunks and items of few queries run at the same time, each on some of the multiprocessors.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/attention/call_parts.h"
#include "src/backend/cuda/driver/device.h"
#include "src/backend/cuda/driver/stream.h"
#include "tests/attention/devices.h"
#include "tests/attention/expect_attention.h"

namespace stof {
namespace {

struct Step {
  const char* name;
  int head_dim, heads, kv_heads;
  DType dtype;
  std::int64_t page_size;  // 0: rows
  const char* mask;
};
const Step kSteps[] = {
    {"d128_pages", 128, 32, 8, DType::f16, 64, "causal"},
    {"d128_small_pages", 128, 32, 8, DType::bf16, 16, "causal & (window(700) | sink(4))"},
    {"d128_rows", 128, 32, 8, DType::f16, 0, "causal"},
    {"d64_pages", 64, 32, 8, DType::f16, 64, "causal"},
    {"d256_pages", 256, 16, 4, DType::bf16, 64, "causal"},
};

// Sixteen items of few queries beside two chunks.
ProblemShape step_of(const Step& step) {
  ProblemShape what;
  what.shape = {.batch = 18, .heads = step.heads, .kv_heads = step.kv_heads, .queries = 1024, .keys = 2048};
  what.shape.head_dim = step.head_dim, what.shape.dtype = step.dtype;
  what.form = BatchForm::packed, what.page_size = step.page_size;
  for (std::int32_t item = 0; item < 16; ++item) {
    what.q_lengths.push_back(item == 7 ? 3 : 1);
    what.kv_lengths.push_back(900 + 37 * item);
  }
  for (const std::int32_t queries : {1000, 333}) what.q_lengths.push_back(queries), what.kv_lengths.push_back(1500);
  return what;
}

class SideBySideSteps : public testing::TestWithParam<Step> {
 protected:
  void SetUp() override {
    STOF_SKIP_WITHOUT("cuda");
    if (open_device("cuda").caps.arch < 90) GTEST_SKIP() << "launches depend on each other from 9.0 on";
  }
};

// That plans of these lengths run it so is asked of plans of the test's own.
void expect_two_sides(const Problem& problem, const Mask& mask, const Device& device) {
  CallPlans plans(mask, problem.what().shape, device, "auto");
  plans.prepare(problem.what().shape.queries, 1);
  plans.prepare(4, 1);
  const DeviceArguments there(problem.arguments(), device);
  const CheckedCall checked = plans.check(there.arguments(), std::nullopt, std::pmr::get_default_resource());
  EXPECT_TRUE(parts_of_items(plans, checked, there.arguments(), std::pmr::get_default_resource()).sides);
}

TEST_P(SideBySideSteps, EqualTheDefinition) {
  const Device device = open_device("cuda");
  const Problem problem(step_of(GetParam()), 3);
  const Mask mask = parse(GetParam().mask);
  expect_two_sides(problem, mask, device);
  const Attention attention(mask, problem.what().shape, device);
  attention.prepare(problem.what().shape.queries, 1);
  attention.prepare(4, 1);
  run_on(device, attention, problem);
  EXPECT_EQ(difference_from_definition(problem, mask, 61), "");
}

// The bytes of out and lse.
std::vector<std::byte> bytes_of_outputs(const Problem& problem) {
  std::vector<std::byte> bytes;
  for (const TensorView& view : {problem.out, problem.lse_view}) {
    const auto* const begin = static_cast<const std::byte*>(view.data);
    std::int64_t last = 0;
    for (std::size_t i = 0; i < view.rank(); ++i) last += (view.dim(i) - 1) * view.strides[i];
    bytes.insert(bytes.end(), begin, begin + (last + 1) * static_cast<std::int64_t>(size_of(view.dtype)));
  }
  return bytes;
}

// One plan, one stream: a launch that waits for nothing in front of it must not meet another call's workspace.
TEST_P(SideBySideSteps, OfThreadsOnOneStreamDoNotMeet) {
  constexpr int kThreads = 3, kRounds = 30;
  const Device device = open_device("cuda");
  const Mask mask = parse(GetParam().mask);
  std::vector<std::unique_ptr<Problem>> problems;
  for (unsigned seed = 0; seed < kThreads; ++seed)
    problems.push_back(std::make_unique<Problem>(step_of(GetParam()), seed));
  const Attention attention(mask, problems[0]->what().shape, device);
  attention.prepare(problems[0]->what().shape.queries, 1);
  attention.prepare(4, 1);
  std::vector<std::vector<std::byte>> expected;
  for (const auto& problem : problems) {
    run_on(device, attention, *problem);
    expected.push_back(bytes_of_outputs(*problem));
  }
  std::array<int, kThreads> wrong{};
  std::vector<std::thread> threads;
  const cuda::Stream stream(cuda::gpu_of(device));
  for (std::size_t of = 0; of < kThreads; ++of)
    threads.emplace_back([&, of] {
      const DeviceArguments there(problems[of]->arguments(), device);
      AttentionArguments arguments = there.arguments();
      arguments.stream = stream.handle();
      for (int round = 0; round < kRounds; ++round) {
        for (int call = 0; call < 4; ++call) attention.run(arguments);
        stream.synchronize();
        there.copy_back();
        wrong[of] += bytes_of_outputs(*problems[of]) != expected[of];
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const int count : wrong) EXPECT_EQ(count, 0);
}

INSTANTIATE_TEST_SUITE_P(Cuda, SideBySideSteps, testing::ValuesIn(kSteps),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace stof
