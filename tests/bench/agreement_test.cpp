// SPDX-License-Identifier: Apache-2.0
// What bench_gemm accepts of a result: neither one that was not written, nor one that is wrong in a row of many.
#include "bench/agreement.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace stof {
namespace {

constexpr std::int64_t kRows = 10000, kColumns = 8;

std::vector<float> values() {
  std::vector<float> found;
  for (std::int64_t i = 0; i < kRows * kColumns; ++i) found.push_back(static_cast<float>(i % 7) - 3.5f);
  return found;
}

TEST(Agreement, SmallErrorsAreAccepted) {
  std::vector<float> got = values();
  for (float& value : got) value *= 1.001f;
  const Agreement found = agreement_of(got, values(), kColumns);
  EXPECT_EQ(found.wrong, "");
  EXPECT_NEAR(found.frobenius, 1e-3, 1e-6);
  EXPECT_NEAR(found.worst_row, 1e-3, 1e-6);
}

TEST(Agreement, ErrorsOfTheWholeAreWrong) {
  std::vector<float> got = values();
  for (float& value : got) value *= 1.003f;
  EXPECT_EQ(agreement_of(got, values(), kColumns).wrong.substr(0, 22), "relative error 3.0e-03");
}

TEST(Agreement, OneRowIsWrong) {
  std::vector<float> got = values();
  got[4321 * kColumns] += 1;
  const Agreement found = agreement_of(got, values(), kColumns);
  EXPECT_LT(found.frobenius, 2e-3);
  EXPECT_GT(found.worst_row, 2e-2);
  EXPECT_NE(found.wrong.find(", row 4321 "), std::string::npos) << found.wrong;
}

TEST(Agreement, WhatWasNotWrittenIsWrong) {
  std::vector<float> got = values();
  got[17 * kColumns + 3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(agreement_of(got, values(), kColumns).wrong,
            "relative error nan, row 17 nan; accepted: less than 2e-03 and 2e-02");
}

TEST(Agreement, NothingAgreesWithAnExpectationThatWasNotWritten) {
  std::vector<float> want = values();
  want.back() = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(agreement_of(values(), want, kColumns).wrong, "");
}

TEST(Agreement, RowsOfZerosHaveNoRelativeError) {
  std::vector<float> want = values(), got = values();
  for (std::int64_t i = 0; i < kColumns; ++i) want[static_cast<std::size_t>(i)] = got[static_cast<std::size_t>(i)] = 0;
  EXPECT_EQ(agreement_of(got, want, kColumns).wrong, "");
}

}  // namespace
}  // namespace stof
