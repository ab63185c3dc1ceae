// SPDX-License-Identifier: Apache-2.0
// Every kernel with each of its tiles and splits, at every head dimension that has instances of its own, on
// equal, ragged and packed batches, against the definition.
#include "tests/attention/every_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "src/backend/cuda/attention/instances.h"
#include "tests/attention/devices.h"
#include "tests/attention/expect_attention.h"

namespace stof {
namespace {

const Batch kBatches[] = {{"equal", BatchForm::heads_first, {150, 150}},
                          {"one", BatchForm::rows_first, {333}},
                          {"ragged", BatchForm::rows_first, {200, 0, 65, 1}},
                          {"packed", BatchForm::packed, {140, 5, 64, 0, 30}},
                          {"alike", BatchForm::packed, {140, 140, 140}}};

using DeviceDimType = std::tuple<std::string, int, DType>;

// What both suites do with a device, a head dimension and a type.
struct Tried {
  DeviceDimType with;

  Problem make(const Batch& batch, std::int64_t more_keys, float softcap = 0, std::int64_t page_size = 0) const {
    const auto& [device, head_dim, dtype] = with;
    return problem_of(batch, {.heads = 2, .kv_heads = 1, .head_dim = head_dim, .dtype = dtype}, more_keys, softcap,
                      page_size);
  }

  void expect_every_plan(const Problem& problem, const Mask& mask, const std::string& what) const {
    const AttentionShape& s = problem.what().shape;
    const auto expect_view = [&](const View& view) {
      const Device device = open_device(std::get<0>(with));
      const int runs = run_every_plan(device, view, problem, [&](const std::string& plan) {
        ASSERT_EQ(difference_from_definition(problem, mask), "") << what << ", " << mask.text() << ", " << plan;
      });
      EXPECT_GE(runs, 2) << what;
    };
    expect_view(plain_view(mask, s));
    if (problem.what().page_size > 0) return;  // pages have no residue classes
    if (const std::optional<View> by_residue = view_by_residue(mask, s)) expect_view(*by_residue);
  }
};

// A case for each of kBatches: under compute-sanitizer all of them in one took minutes.
class EveryPlanOfABatch : public testing::TestWithParam<std::tuple<DeviceDimType, int>> {
 protected:
  void SetUp() override { STOF_SKIP_WITHOUT(std::get<0>(tried_.with)); }

  Tried tried_{std::get<0>(GetParam())};
  const Batch& batch_ = kBatches[std::get<1>(GetParam())];
};

TEST_P(EveryPlanOfABatch, EqualsTheDefinition) {
  for (const char* text :
       {"causal", "window(16)", "heads(0: causal, *: window(20,3))", "!window(70) & causal", "dilated(12,3)"})
    for (const std::int64_t more_keys : {0, 37}) {
      tried_.expect_every_plan(tried_.make(batch_, more_keys), parse(text), batch_.name);
      if (HasFatalFailure()) return;
    }
}

// A cap that bends every score, and one that bends the largest a little.
TEST_P(EveryPlanOfABatch, EqualsTheDefinitionWhereScoresAreCapped) {
  for (const float softcap : {0.7f, 8.f})
    for (const char* text : {"causal", "heads(0: window(20,3), *: !window(70) & causal)", "dilated(12,3)"}) {
      tried_.expect_every_plan(tried_.make(batch_, 37, softcap), parse(text), batch_.name);
      if (HasFatalFailure()) return;
    }
}

// Reaches that end within a tile, that are one place, and that no key is beyond.
TEST_P(EveryPlanOfABatch, EqualsTheDefinitionWhereScoresAreBiased) {
  for (const std::int64_t reach : {0, 20, 700})
    for (const char* text : {"causal", "heads(0: window(20,3), *: !window(70) & causal)", "dilated(12,3)"}) {
      ProblemShape what = tried_.make(batch_, 37).what();
      what.bias_reach = reach;
      what.shape.biased = true;
      tried_.expect_every_plan(Problem(what, 7), parse(text), batch_.name);
      if (HasFatalFailure()) return;
    }
}

// Pages of fewer keys than a tile, and of as many and more; tiles that begin at multiples of 8 and of 64.
TEST_P(EveryPlanOfABatch, EqualsTheDefinitionWhereKeysLieInPages) {
  const auto expect = [&](std::int64_t page_size, const char* text, float softcap) {
    tried_.expect_every_plan(tried_.make(batch_, 37, softcap, page_size), parse(text), batch_.name);
  };
  expect(16, "causal", 0);
  expect(16, "window(16)", 0);
  expect(64, "!window(70) & causal", 0);
  expect(128, "heads(0: causal, *: window(20,3))", 0);
  expect(32, "causal", 6);
}

class EveryPlan : public testing::TestWithParam<DeviceDimType> {
 protected:
  void SetUp() override { STOF_SKIP_WITHOUT(std::get<0>(tried_.with)); }

  Tried tried_{GetParam()};
};

TEST_P(EveryPlan, EqualsTheDefinitionWhereKeysAreSplitAndScoresCapped) {
  tried_.expect_every_plan(tried_.make({"long", BatchForm::heads_first, {1111}}, 0, 6), parse("window(20) | global(3)"),
                           "long");
}

TEST_P(EveryPlan, EqualsTheDefinitionWhereKeysAreSplitAndScoresBiased) {
  ProblemShape what = tried_.make({"long", BatchForm::heads_first, {1111}}, 0).what();
  what.bias_reach = 100;
  what.shape.biased = true;
  tried_.expect_every_plan(Problem(what, 7), parse("window(20) | global(3)"), "long");
}

// Enough key tiles for several splits of the global rows, and all rows of a dense mask.
TEST_P(EveryPlan, EqualsTheDefinitionWhereKeysAreSplit) {
  const Batch batch{"long", BatchForm::heads_first, {1111}};
  for (const char* text : {"window(20) | global(3)", "prefix(40) | window(100)"}) {
    tried_.expect_every_plan(tried_.make(batch, 0), parse(text), batch.name);
    if (HasFatalFailure()) return;
  }
}

TEST_P(EveryPlan, EqualsTheDefinitionWhereKeysAreSplitAndLieInPages) {
  const Problem problem = tried_.make({"long", BatchForm::heads_first, {1111}}, 0, 0, 16);
  tried_.expect_every_plan(problem, parse("window(20) | global(3)"), "long");
}

// More row blocks than a GPU works on at once, some of them without a key: teams take several, one after the other.
TEST_P(EveryPlan, EqualsTheDefinitionOnManyRowBlocks) {
  Batch batch{"many", BatchForm::rows_first, {130}};
  while (batch.lengths.size() < 150) batch.lengths.push_back(std::array{70, 66, 0, 20, 130}[batch.lengths.size() % 5]);
  for (const char* text : {"causal", "heads(0: !window(64) & causal, *: window(30))"}) {
    tried_.expect_every_plan(tried_.make(batch, 0), parse(text), batch.name);
    if (HasFatalFailure()) return;
  }
}

std::set<int> head_dims() {
  std::set<int> all;
  for (const cuda::StreamInstance& instance : cuda::stream_instances()) all.insert(instance.head_dim);
  return all;
}

std::string text_of(const DeviceDimType& with) {
  return fmt::format("d{}_{}", std::get<1>(with), name_of(std::get<2>(with)));
}
std::string name_of_case(const testing::TestParamInfo<EveryPlan::ParamType>& the) { return text_of(the.param); }
std::string name_of_batch_case(const testing::TestParamInfo<EveryPlanOfABatch::ParamType>& the) {
  const auto& [with, batch] = the.param;
  return fmt::format("{}_{}", text_of(with), kBatches[batch].name);
}

auto on_cpu() { return testing::Combine(testing::Values("cpu"), testing::Values(24), testing::Values(DType::f32)); }
auto on_cuda() {
  return testing::Combine(testing::Values("cuda"), testing::ValuesIn(head_dims()),
                          testing::Values(DType::f16, DType::bf16));
}
auto each_batch() { return testing::Range(0, static_cast<int>(std::size(kBatches))); }

INSTANTIATE_TEST_SUITE_P(Cpu, EveryPlanOfABatch, testing::Combine(on_cpu(), each_batch()), name_of_batch_case);
INSTANTIATE_TEST_SUITE_P(Cuda, EveryPlanOfABatch, testing::Combine(on_cuda(), each_batch()), name_of_batch_case);
INSTANTIATE_TEST_SUITE_P(Cpu, EveryPlan, on_cpu(), name_of_case);
INSTANTIATE_TEST_SUITE_P(Cuda, EveryPlan, on_cuda(), name_of_case);

}  // namespace
}  // namespace stof
