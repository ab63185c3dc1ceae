// SPDX-License-Identifier: Apache-2.0
// The same call gives the same bits each time, whatever order its parts end in: keys that are split, row blocks that
// come from a queue, heads in sections, items from the last to the first.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string_view>

#include "src/backend/cuda/attention/instances.h"
#include "tests/attention/devices.h"
#include "tests/attention/every_plan.h"

namespace stof {
namespace {

constexpr int kRuns = 3;

std::string_view bytes_of(const TensorView& tensor) {
  return {static_cast<const char*>(tensor.data),
          static_cast<std::size_t>(element_count(tensor.shape)) * size_of(tensor.dtype)};
}

// Of out and of the logarithms. Poison around them is the same each time.
std::array<std::size_t, 2> bits_of(const Problem& problem) {
  const std::hash<std::string_view> hash;
  return {hash(bytes_of(problem.out)), hash(bytes_of(problem.lse_view))};
}

class SameBits : public testing::TestWithParam<std::tuple<std::string, int, DType>> {
 protected:
  void SetUp() override { STOF_SKIP_WITHOUT(std::get<0>(GetParam())); }

  static Problem make(std::int64_t heads, const std::vector<std::int32_t>& lengths) {
    const auto& [device, head_dim, dtype] = GetParam();
    return Problem({.shape = {.batch = std::ssize(lengths),
                              .heads = heads,
                              .kv_heads = 1,
                              .queries = lengths.front(),
                              .keys = lengths.front(),
                              .head_dim = head_dim,
                              .dtype = dtype},
                    .form = BatchForm::packed,
                    .q_lengths = lengths,
                    .kv_lengths = lengths},
                   7);
  }
  // More row blocks than any instance has rounds of.
  static Problem many_row_blocks(std::int64_t heads = 8, std::size_t items = 160) {
    std::vector<std::int32_t> lengths{130};
    while (lengths.size() < items) lengths.push_back(std::array{70, 66, 0, 20, 130}[lengths.size() % 5]);
    return make(heads, lengths);
  }
  static Problem long_rows() { return make(2, {1500}); }

  // Every plan, arranged anew each time.
  static void expect_same_of_every_plan(const Problem& problem, const char* text) {
    const Device device = open_device(std::get<0>(GetParam()));
    const View view = plain_view(parse(text), problem.what().shape);
    std::vector<std::array<std::size_t, 2>> first;
    for (int run = 0; run < kRuns; ++run) {
      std::size_t plan_number = 0;
      const int runs = run_every_plan(device, view, problem, [&](const std::string& plan) {
        if (run == 0) first.push_back(bits_of(problem));
        ASSERT_EQ(bits_of(problem), first.at(plan_number++)) << text << ", run " << run << ", " << plan;
      });
      EXPECT_GE(runs, 2);
      if (HasFatalFailure()) return;
    }
  }

  // One plan of each kernel, which uses its workspace again, every other time backwards and for the cache.
  static int expect_same_of_one_plan(const Problem& problem, const char* text) {
    const Device device = open_device(std::get<0>(GetParam()));
    int kernels = 0;
    for (const AttentionKernel& kernel : device.backend->attention) {
      const View view = plain_view(parse(text), problem.what().shape);
      if (kernel.refuses(problem_of(view, device), device.caps)) continue;
      const Attention attention(parse(text), problem.what().shape, device, {.kernel = std::string(kernel.name)});
      std::array<std::size_t, 2> first{};
      for (int run = 0; run < 2 * kRuns; ++run) {
        problem.poison_outputs();
        AttentionArguments arguments = problem.arguments();
        arguments.backwards = arguments.out_read_next = run % 2 != 0;
        run_host_tensors(attention, arguments, device);
        if (run == 0) first = bits_of(problem);
        EXPECT_EQ(bits_of(problem), first) << text << ", run " << run << ", " << kernel.name;
      }
      ++kernels;
    }
    return kernels;
  }
};

TEST_P(SameBits, OfEveryPlanWhereKeysAreSplit) {
  const Problem problem = long_rows();
  for (const char* text : {"window(20) | global(3)", "causal"}) {
    expect_same_of_every_plan(problem, text);
    if (HasFatalFailure()) return;
  }
}

TEST_P(SameBits, OfEveryPlanOnManyRowBlocks) { expect_same_of_every_plan(many_row_blocks(), "causal & window(70)"); }

// Of as many heads a tile has rows that stand for nothing. Which row block was in its place before differs by run.
TEST_P(SameBits, OfEveryPlanWhoseTilesHaveRowsOfNothing) {
  for (const std::int64_t heads : {7, 5}) {
    expect_same_of_every_plan(many_row_blocks(heads, 80), "causal & window(70)");
    if (HasFatalFailure()) return;
  }
}

TEST_P(SameBits, OfAPlanThatRunsAgain) {
  EXPECT_GE(expect_same_of_one_plan(long_rows(), "window(20) | global(3)"), 2);
  EXPECT_GE(expect_same_of_one_plan(long_rows(), "causal & window(40)"), 2);
  EXPECT_GE(expect_same_of_one_plan(many_row_blocks(), "causal"), 2);
}

std::set<int> head_dims() {
  std::set<int> all;
  for (const cuda::StreamInstance& instance : cuda::stream_instances()) all.insert(instance.head_dim);
  return all;
}

std::string name_of_case(const testing::TestParamInfo<SameBits::ParamType>& the) {
  return fmt::format("d{}_{}", std::get<1>(the.param), name_of(std::get<2>(the.param)));
}

INSTANTIATE_TEST_SUITE_P(Cpu, SameBits,
                         testing::Combine(testing::Values("cpu"), testing::Values(24),
                                          testing::Values(DType::f32, DType::bf16)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Cuda, SameBits,
                         testing::Combine(testing::Values("cuda"), testing::ValuesIn(head_dims()),
                                          testing::Values(DType::f16)),
                         name_of_case);

}  // namespace
}  // namespace stof
