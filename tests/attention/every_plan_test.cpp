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
                          {"packed", BatchForm::packed, {140, 5, 64, 0, 30}}};

class EveryPlan : public testing::TestWithParam<std::tuple<std::string, int, DType>> {
 protected:
  void SetUp() override { STOF_SKIP_WITHOUT(std::get<0>(GetParam())); }

  static Problem make(const Batch& batch, std::int64_t more_keys, float softcap = 0) {
    const auto& [device, head_dim, dtype] = GetParam();
    return problem_of(batch, {.heads = 2, .kv_heads = 1, .head_dim = head_dim, .dtype = dtype}, more_keys, softcap);
  }

  static void expect_every_plan(const Problem& problem, const Mask& mask, const std::string& what) {
    const AttentionShape& s = problem.what().shape;
    const auto expect_view = [&](const View& view) {
      const Device device = open_device(std::get<0>(GetParam()));
      const int runs = run_every_plan(device, view, problem, [&](const std::string& plan) {
        ASSERT_EQ(difference_from_definition(problem, mask), "") << what << ", " << mask.text() << ", " << plan;
      });
      EXPECT_GE(runs, 2) << what;
    };
    expect_view(plain_view(mask, s));
    if (const std::optional<View> by_residue = view_by_residue(mask, s)) expect_view(*by_residue);
  }
};

TEST_P(EveryPlan, EqualsTheDefinitionOnEveryBatch) {
  for (const Batch& batch : kBatches)
    for (const char* text :
         {"causal", "window(16)", "heads(0: causal, *: window(20,3))", "!window(70) & causal", "dilated(12,3)"})
      for (const std::int64_t more_keys : {0, 37}) {
        expect_every_plan(make(batch, more_keys), parse(text), batch.name);
        if (HasFatalFailure()) return;
      }
}

// A cap that bends every score, and one that bends the largest a little.
TEST_P(EveryPlan, EqualsTheDefinitionWhereScoresAreCapped) {
  for (const Batch& batch : kBatches)
    for (const float softcap : {0.7f, 8.f})
      for (const char* text : {"causal", "heads(0: window(20,3), *: !window(70) & causal)", "dilated(12,3)"}) {
        expect_every_plan(make(batch, 37, softcap), parse(text), batch.name);
        if (HasFatalFailure()) return;
      }
}

TEST_P(EveryPlan, EqualsTheDefinitionWhereKeysAreSplitAndScoresCapped) {
  expect_every_plan(make({"long", BatchForm::heads_first, {1111}}, 0, 6), parse("window(20) | global(3)"), "long");
}

// Enough key tiles for several splits of the global rows, and all rows of a dense mask.
TEST_P(EveryPlan, EqualsTheDefinitionWhereKeysAreSplit) {
  const Batch batch{"long", BatchForm::heads_first, {1111}};
  for (const char* text : {"window(20) | global(3)", "prefix(40) | window(100)"}) {
    expect_every_plan(make(batch, 0), parse(text), batch.name);
    if (HasFatalFailure()) return;
  }
}

// More row blocks than a GPU works on at once, some of them without a key: teams take several, one after the other.
TEST_P(EveryPlan, EqualsTheDefinitionOnManyRowBlocks) {
  Batch batch{"many", BatchForm::rows_first, {130}};
  while (batch.lengths.size() < 150) batch.lengths.push_back(std::array{70, 66, 0, 20, 130}[batch.lengths.size() % 5]);
  for (const char* text : {"causal", "heads(0: !window(64) & causal, *: window(30))"}) {
    expect_every_plan(make(batch, 0), parse(text), batch.name);
    if (HasFatalFailure()) return;
  }
}

std::set<int> head_dims() {
  std::set<int> all;
  for (const cuda::StreamInstance& instance : cuda::stream_instances()) all.insert(instance.head_dim);
  return all;
}

std::string name_of_case(const testing::TestParamInfo<EveryPlan::ParamType>& the) {
  return fmt::format("d{}_{}", std::get<1>(the.param), name_of(std::get<2>(the.param)));
}

INSTANTIATE_TEST_SUITE_P(Cpu, EveryPlan,
                         testing::Combine(testing::Values("cpu"), testing::Values(24), testing::Values(DType::f32)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Cuda, EveryPlan,
                         testing::Combine(testing::Values("cuda"), testing::ValuesIn(head_dims()),
                                          testing::Values(DType::f16, DType::bf16)),
                         name_of_case);

}  // namespace
}  // namespace stof
