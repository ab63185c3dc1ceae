// SPDX-License-Identifier: Apache-2.0
// A division by multiplication gives what a division gives.
#include "kernels/shared/divisor.h"

#include <gtest/gtest.h>

#include <climits>
#include <random>

namespace stof::cuda {
namespace {

void expect_exact(int number, int by) { ASSERT_EQ(number / Divisor(by), number / by) << number << " / " << by; }

TEST(Divisor, DividesExactly) {
  for (int by = 1; by <= 300; ++by)
    for (int number = 0; number <= 3000; ++number) expect_exact(number, by);
}

// About multiples of large divisors, where a rounded quotient would be off.
TEST(Divisor, DividesExactlyUpToTheLargestNumber) {
  std::mt19937 random(1);
  std::uniform_int_distribution<int> any(1, INT_MAX);
  for (int i = 0; i < 200'000; ++i) {
    const int by = any(random) >> random() % 31;
    if (by == 0) continue;
    const int multiple = any(random) / by * by;
    for (const int number : {multiple - 1, multiple, any(random), INT_MAX, INT_MAX - 1})
      if (number >= 0) expect_exact(number, by);
  }
}

TEST(Divisor, IsANumber) {
  const Divisor five = 5;
  EXPECT_EQ(five * 3, 15);
  EXPECT_EQ(Divisor(0).value, 0) << "nothing is divided by it";
}

}  // namespace
}  // namespace stof::cuda
