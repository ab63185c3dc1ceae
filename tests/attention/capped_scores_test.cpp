// SPDX-License-Identifier: Apache-2.0
// Capped scores by every plan against the definition in double precision, from scores that the cap hardly bends to such
// as it holds nearly all at its ends. Logarithms are compared absolutely: an error of a score is one of its weight.
// --gtest_output=json:FILE keeps the errors of each kernel.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tests/attention/devices.h"
#include "tests/attention/every_plan.h"
#include "tests/attention/expect_attention.h"
#include "tests/attention/tolerance.h"
#include "tests/worst.h"

namespace stof {
namespace {

constexpr float kCaps[] = {20.f, 30.f, 50.f, 1e6f};
constexpr float kDeviations[] = {1.f, 6.f, 45.f};  // of the scores
constexpr double kMostOfLse = 1e-3;

class CappedScores : public testing::TestWithParam<std::tuple<std::string, int, DType>> {
 protected:
  static constexpr std::int64_t kRows = 97;

  void SetUp() override { STOF_SKIP_WITHOUT(std::get<0>(GetParam())); }

  static Problem make(float cap, float deviation) {
    const auto& [device, head_dim, dtype] = GetParam();
    Problem problem({.shape = {.batch = 1,
                               .heads = 2,
                               .kv_heads = 1,
                               .queries = kRows,
                               .keys = kRows + 430,
                               .head_dim = head_dim,
                               .dtype = dtype,
                               .capped = true},
                     .q_lengths = {},
                     .kv_lengths = {},
                     .softcap = cap},
                    11);
    const AttentionItem& item = problem.items().front();
    for (std::int64_t head = 0; head < 2; ++head)
      for (std::int64_t row = 0; row < kRows; ++row)
        for (std::int64_t c = 0; c < head_dim; ++c)
          problem.set(problem.q, item.q, head, row, c, deviation * problem.get(problem.q, item.q, head, row, c));
    return problem;
  }

  // Band and gather have no capped form, and decode few queries.
  static std::vector<std::string> kernels_that_cap() {
    const Device device = open_device(std::get<0>(GetParam()));
    if (device.backend->memory == nullptr) return {"block_attention", "row_attention"};
    if (is_written_for(device, "stream_attention")) return {"mma_attention", "row_attention", "stream_attention"};
    return {"mma_attention", "row_attention"};
  }

  // Of each kernel, over its plans.
  static std::map<std::string, OutputErrors> worst_errors(const Problem& problem, const Mask& mask) {
    std::map<std::string, OutputErrors> worst;
    const Device device = open_device(std::get<0>(GetParam()));
    run_every_plan(device, plain_view(mask, problem.what().shape), problem, [&](const std::string& plan) {
      const OutputErrors errors = errors_against_definition(problem, mask);
      OutputErrors& so_far = worst[plan.substr(0, plan.find(' '))];
      keep_worst(so_far.all, errors.all), keep_worst(so_far.worst_row, errors.worst_row),
          keep_worst(so_far.lse, errors.lse);
    });
    std::vector<std::string> kernels;
    for (const auto& [kernel, errors] : worst) kernels.push_back(kernel);
    EXPECT_EQ(kernels, kernels_that_cap());
    return worst;
  }

  static void expect_definition(const Mask& mask, const std::string& rows) {
    const Tolerance allowed = tolerance(std::get<2>(GetParam()));
    for (const float cap : kCaps)
      for (const float deviation : kDeviations)
        for (const auto& [kernel, errors] : worst_errors(make(cap, deviation), mask)) {
          const std::string what = fmt::format("{}{}_cap{}_deviation{}", kernel, rows, cap, deviation);
          EXPECT_LE(errors.all, allowed.all) << what;
          EXPECT_LE(errors.worst_row, allowed.worst_row) << what;
          EXPECT_LE(errors.lse, kMostOfLse) << what;
          RecordProperty(what, fmt::format("{:.3e} {:.3e} {:.3e}", errors.all, errors.worst_row, errors.lse));
        }
  }
};

TEST_P(CappedScores, AndTheirLogarithmsEqualTheDefinition) { expect_definition(causal(), ""); }

// The logarithm is the capped score itself: nothing averages its error away.
TEST_P(CappedScores, OfRowsWithOneKeyAreTheirLogarithms) { expect_definition(window(0), "_one_key"); }

std::string name_of_case(const testing::TestParamInfo<CappedScores::ParamType>& the) {
  return fmt::format("d{}_{}", std::get<1>(the.param), name_of(std::get<2>(the.param)));
}

INSTANTIATE_TEST_SUITE_P(Cpu, CappedScores,
                         testing::Combine(testing::Values("cpu"), testing::Values(64), testing::Values(DType::f16)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Cuda, CappedScores,
                         testing::Combine(testing::Values("cuda"), testing::Values(64, 128, 256),
                                          testing::Values(DType::f16, DType::bf16)),
                         name_of_case);

}  // namespace
}  // namespace stof
