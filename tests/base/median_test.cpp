// SPDX-License-Identifier: Apache-2.0
#include "src/base/median.h"

#include <gtest/gtest.h>

namespace stof {
namespace {

TEST(Median, IsTheValueInTheMiddle) {
  EXPECT_EQ(median_of({3}), 3);
  EXPECT_EQ(median_of({9, 1, 4}), 4);
  EXPECT_EQ(median_of({9, 1, 4, 3}), 4);
  EXPECT_EQ(median_of({2, 2, 1, 2, 7}), 2);
}

}  // namespace
}  // namespace stof
