// SPDX-License-Identifier: Apache-2.0
// Random (mask, shape, dtype, strides, lengths) problems against the definition, on every kernel that takes them.
#include <gtest/gtest.h>

#include "tests/attention/devices.h"
#include "tests/attention/random_problem.h"

namespace stof {
namespace {

class RandomProblem : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(RandomProblem, EqualsItsDefinition) {
  const auto& [name, kernel] = GetParam();
  STOF_SKIP_WITHOUT(name);
  const Device device = open_device(name);
  const int kProblems = name == "cuda" ? 1300 : 1000;
  int checked = 0;
  for (unsigned seed = 0; checked < kProblems; ++seed) {
    ASSERT_LT(seed, 60u * static_cast<unsigned>(kProblems));
    const RandomOutcome outcome = try_random_problem(seed, device, kernel);
    EXPECT_EQ(outcome.wrong, "");
    checked += outcome.taken ? 1 : 0;
  }
}

TEST_P(RandomProblem, EqualsItsDefinitionWithFewQueries) {
  const auto& [name, kernel] = GetParam();
  STOF_SKIP_WITHOUT(name);
  const Device device = open_device(name);
  const int kProblems = name == "cuda" ? 600 : 60;
  int checked = 0;
  for (unsigned seed = 0; checked < kProblems; ++seed) {
    ASSERT_LT(seed, 20u * static_cast<unsigned>(kProblems));
    const RandomOutcome outcome = try_random_problem(seed, device, kernel, RandomKind::few_queries);
    EXPECT_EQ(outcome.wrong, "");
    checked += outcome.taken ? 1 : 0;
  }
}

std::string name_of_case(const testing::TestParamInfo<std::tuple<std::string, std::string>>& the) {
  return std::get<1>(the.param);
}

INSTANTIATE_TEST_SUITE_P(Cpu, RandomProblem,
                         testing::Combine(testing::Values("cpu"),
                                          testing::Values("auto", "block_attention", "row_attention")),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Cuda, RandomProblem,
                         testing::Combine(testing::Values("cuda"),
                                          testing::Values("auto", "stream_attention", "band_attention",
                                                          "gather_attention", "mma_attention", "decode_attention",
                                                          "row_attention")),
                         name_of_case);

}  // namespace
}  // namespace stof
