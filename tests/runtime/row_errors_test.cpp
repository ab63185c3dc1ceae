// SPDX-License-Identifier: Apache-2.0
// One wrong row is found among many, in whichever piece it comes.
#include "src/runtime/row_errors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace stof {
namespace {

constexpr std::size_t kRows = 10000, kColumns = 4;

RowErrors of_pieces(const std::vector<float>& got, const std::vector<float>& want, std::size_t rows) {
  RowDistances distances(kColumns);
  for (std::size_t first = 0; first < want.size(); first += rows * kColumns) {
    const std::size_t count = std::min(rows * kColumns, want.size() - first);
    distances.add(std::span(got).subspan(first, count), std::span(want).subspan(first, count));
  }
  return distances.errors();
}

TEST(RowErrors, OneWrongRowIsNotLostInTheOthers) {
  const std::vector<float> want(kRows * kColumns, 1);
  std::vector<float> got = want;
  for (std::size_t column = 0; column < kColumns; ++column) got[9000 * kColumns + column] = 2;
  for (const std::size_t piece : {kRows, std::size_t{4096}, std::size_t{7}}) {
    const RowErrors errors = of_pieces(got, want, piece);
    EXPECT_DOUBLE_EQ(errors.all, 0.01);
    EXPECT_DOUBLE_EQ(errors.worst_row, 1);
  }
}

TEST(RowErrors, NotANumberStays) {
  const std::vector<float> want(kRows * kColumns, 1);
  std::vector<float> got = want;
  got[5] = std::numeric_limits<float>::quiet_NaN();
  got[50] = 3;
  const RowErrors errors = of_pieces(got, want, 100);
  EXPECT_TRUE(std::isnan(errors.all));
  EXPECT_TRUE(std::isnan(errors.worst_row));
}

TEST(RowErrors, NothingIsOffByNothing) {
  const RowErrors errors = RowDistances(kColumns).errors();
  EXPECT_EQ(errors.all, 0);
  EXPECT_EQ(errors.worst_row, 0);
}

}  // namespace
}  // namespace stof
