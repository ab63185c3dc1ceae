// SPDX-License-Identifier: Apache-2.0
// NaN and infinity reach the rows that may see them, and no other.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/attention/devices.h"
#include "tests/attention/expect_attention.h"

namespace stof {
namespace {

constexpr std::int64_t kLength = 150, kHeadDim = 24;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

using SpecialCase = std::tuple<std::string, std::string, DType>;  // device, kernel, storage

class Special : public testing::TestWithParam<SpecialCase> {
 protected:
  void SetUp() override { STOF_SKIP_WITHOUT(std::get<0>(GetParam())); }
  Problem make() const {
    const AttentionShape shape{
        .queries = kLength, .keys = kLength, .head_dim = kHeadDim, .dtype = std::get<2>(GetParam())};
    return Problem({.shape = shape, .q_lengths = {}, .kv_lengths = {}}, 11);
  }
  void run(const Problem& problem, const Mask& mask) const {
    const Device device = open_device(std::get<0>(GetParam()));
    run_on(device, Attention(mask, problem.what().shape, device, {.kernel = std::get<1>(GetParam())}), problem);
  }
  static bool any_nan(const Problem& problem, std::int64_t row) {
    for (std::int64_t c = 0; c < kHeadDim; ++c)
      if (std::isnan(problem.get(problem.out, 0, 0, row, c))) return true;
    return false;
  }
};

TEST_P(Special, NanInAKeyReachesExactlyTheRowsThatSeeIt) {
  for (const std::int64_t key : {0, 63, 64, 100, 149}) {
    const Problem problem = make();
    problem.set(problem.k, 0, 0, key, 5, kNan);
    run(problem, window(20));
    for (std::int64_t row = 0; row < kLength; ++row) {
      EXPECT_EQ(any_nan(problem, row), std::abs(row - key) <= 20) << "key " << key << " row " << row;
      EXPECT_EQ(std::isnan(problem.lse(problem.items()[0], 0, row)), std::abs(row - key) <= 20);
    }
  }
}

TEST_P(Special, ValuesThatAreNotFiniteReachExactlyTheRowsThatSeeThem) {
  for (const float value : {kNan, kInfinity, -kInfinity}) {
    const Problem problem = make();
    problem.set(problem.v, 0, 0, 70, 3, value);
    problem.set(problem.v, 0, 0, 71, 20, value);
    run(problem, window(20) & !strided(2));
    for (std::int64_t row = 0; row < kLength; ++row) {
      const auto sees = [row](std::int64_t key) { return std::abs(row - key) <= 20 && (row - key) % 2 != 0; };
      for (std::int64_t c = 0; c < kHeadDim; ++c) {
        const bool finite = std::isfinite(problem.get(problem.out, 0, 0, row, c));
        EXPECT_EQ(finite, !(c == 3 && sees(70)) && !(c == 20 && sees(71)))
            << value << " row " << row << " column " << c;
      }
    }
  }
}

TEST_P(Special, RowsThatDoNotSeeThemAreStillRight) {
  const Problem problem = make();
  for (std::int64_t c = 0; c < kHeadDim; ++c) {
    problem.set(problem.k, 0, 0, 80, c, kNan);
    problem.set(problem.v, 0, 0, 80, c, kNan);
  }
  const Mask mask = window(30) & where("k != 80");
  run(problem, mask);
  EXPECT_EQ(difference_from_definition(problem, mask), "");
}

TEST_P(Special, NanInAQueryStaysInItsRow) {
  const Problem problem = make();
  problem.set(problem.q, 0, 0, 70, 0, kNan);
  run(problem, causal());
  for (std::int64_t row = 0; row < kLength; ++row) EXPECT_EQ(any_nan(problem, row), row == 70);
}

std::string name_of_case(const testing::TestParamInfo<SpecialCase>& the) {
  return std::get<1>(the.param) + "_" + std::string(name_of(std::get<2>(the.param)));
}

INSTANTIATE_TEST_SUITE_P(Cpu, Special,
                         testing::Combine(testing::Values("cpu"), testing::Values("block_attention", "row_attention"),
                                          testing::Values(DType::f32, DType::f16, DType::bf16)),
                         name_of_case);
// The kernels that multiply whole tiles multiply forbidden values by 0, and 0 times NaN is NaN: only the row-wise one
// keeps a NaN to the rows that see it.
INSTANTIATE_TEST_SUITE_P(Cuda, Special,
                         testing::Combine(testing::Values("cuda"), testing::Values("row_attention"),
                                          testing::Values(DType::f32, DType::f16, DType::bf16)),
                         name_of_case);

}  // namespace
}  // namespace stof
