// SPDX-License-Identifier: Apache-2.0
// Random (mask, shape, dtype, strides, lengths) problems against the definition, on every kernel that takes them.
#include <gtest/gtest.h>

#include "tests/attention/devices.h"
#include "tests/attention/random_problem.h"

namespace stof {
namespace {

class RandomProblem : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  void SetUp() override { STOF_SKIP_WITHOUT(std::get<0>(GetParam())); }

  // So many problems that the kernel takes; of so many seeds that something else refuses them, none may be left.
  static void expect_definition(RandomKind kind, int problems, unsigned most_seeds_per_problem) {
    const auto& [name, kernel] = GetParam();
    const Device device = open_device(name);
    int checked = 0;
    for (unsigned seed = 0; checked < problems; ++seed) {
      ASSERT_LT(seed, most_seeds_per_problem * static_cast<unsigned>(problems));
      const RandomOutcome outcome = try_random_problem(seed, device, kernel, kind);
      EXPECT_EQ(outcome.wrong, "");
      checked += outcome.taken ? 1 : 0;
    }
  }
  static bool on_gpu() { return std::get<0>(GetParam()) == "cuda"; }
};

TEST_P(RandomProblem, EqualsItsDefinition) { expect_definition(RandomKind::any, on_gpu() ? 1300 : 1000, 60); }

TEST_P(RandomProblem, EqualsItsDefinitionWithFewQueries) {
  expect_definition(RandomKind::few_queries, on_gpu() ? 600 : 60, 20);
}

TEST_P(RandomProblem, EqualsItsDefinitionWhereItIsLarge) {
  expect_definition(RandomKind::large, on_gpu() ? 80 : 30, 100);
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
