// SPDX-License-Identifier: Apache-2.0
// What the host pools beside what models give it: no numbers, and vectors whose squares fp32 does not hold.
#include "src/runtime/pooling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "stof/session.h"

namespace stof {
namespace {

TEST(Pool, TheLargestOfRowsWithNaNIsNaN) {
  constexpr std::int64_t kRows = 9;
  const RowBatch batch{.rows = kRows,
                       .texts = 1,
                       .longest = kRows,
                       .tokens = {},
                       .positions = {},
                       .segments = {},
                       .offsets = {0, kRows},
                       .lengths = {kRows}};
  for (std::size_t at = 0; at < kRows; ++at) {
    std::vector<float> hidden(2 * kRows, 1.f);
    hidden[2 * at] = std::numeric_limits<float>::quiet_NaN();
    hidden[11] = 7;
    const Tensor pooled = pool(batch, hidden.data(), 2, Pooling::max);
    EXPECT_TRUE(std::isnan(pooled.as<float>()[0])) << "row " << at;
    EXPECT_EQ(pooled.as<float>()[1], 7.f);
  }
}

TEST(NormalizeRows, TakesVectorsOfAnySize) {
  for (const float size : {1e-44f, 1e-40f, 1e-23f, 1.f, 1e20f, 3e38f}) {
    const Tensor rows(DType::f32, {1, 4});
    std::fill_n(rows.as<float>(), 4, size);
    normalize_rows(rows);
    for (int i = 0; i < 4; ++i) EXPECT_NEAR(rows.as<float>()[i], 0.5f, 1e-6) << size;
  }
  const Tensor zeros(DType::f32, {1, 4});
  std::fill_n(zeros.as<float>(), 4, 0.f);
  normalize_rows(zeros);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(zeros.as<float>()[i], 0.f);
}

}  // namespace
}  // namespace stof
