// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/batch.h"

#include <gtest/gtest.h>

#include <vector>

namespace stof {
namespace {

using Numbers = std::vector<std::int32_t>;

TokenBatch texts_of(const std::vector<Numbers>& texts) {
  TokenBatch batch;
  for (const Numbers& text : texts) batch.add(text);
  return batch;
}

TEST(Batch, CountsPositionsInsideEachText) {
  const TokenBatch batch = texts_of({{7, 8, 9}, {1}});
  const RowBatch packed = make_rows(batch, {.vocabulary = 10, .longest = 5}, false);
  EXPECT_EQ(packed.positions, (Numbers{0, 1, 2, 0}));
  const RowBatch padded = make_rows(batch, {.vocabulary = 10, .longest = 5}, true);
  EXPECT_EQ(padded.tokens, (Numbers{7, 8, 9, 1, 0, 0}));
  EXPECT_EQ(padded.positions, (Numbers{0, 1, 2, 0, 0, 0}));
}

TEST(Batch, PaddingTakesThePositionBeforeTheFirst) {
  const RowBatch rows = make_rows(texts_of({{5, 1, 6}}), {.vocabulary = 10, .longest = 5, .first_position = 2}, false);
  EXPECT_EQ(rows.positions, (Numbers{2, 1, 3}));
}

// By their own length, whatever stands beside them; no token is padding there, not the one in front of their row
// either.
TEST(Batch, LongerTextsHaveRowsBehindTheOthers) {
  const TextLimits limits{.vocabulary = 10, .longest = 5, .long_after = 3};
  const RowBatch rows = make_rows(texts_of({{7, 8, 9}, {1, 2, 2, 1}, {2, 2}}), limits, false);
  EXPECT_EQ(rows.positions, (Numbers{0, 1, 2, 3, 4, 5, 6, 0, 1}));
  const RowBatch padded = make_rows(texts_of({{7, 8, 9}, {1, 2, 2, 1}}), limits, true);
  EXPECT_EQ(padded.positions, (Numbers{0, 1, 2, 0, 3, 4, 5, 6}));
}

}  // namespace
}  // namespace stof
