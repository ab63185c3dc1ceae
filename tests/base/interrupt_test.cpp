// SPDX-License-Identifier: Apache-2.0
#include "src/base/interrupt.h"

#include <gtest/gtest.h>

#include <thread>

namespace stof {
namespace {

struct Asked {
  int times = 0;
  std::int32_t answer = 0;
};

std::int32_t ask(void* user) {
  Asked& asked = *static_cast<Asked*>(user);
  ++asked.times;
  return asked.answer;
}

void wait() { std::this_thread::sleep_for(std::chrono::milliseconds(60)); }

TEST(Interrupt, IsAskedForNowAndThen) {
  Asked asked;
  const Interruptible interruptible(ask, &asked);
  check_interrupt();
  EXPECT_EQ(asked.times, 0);
  wait();
  check_interrupt();
  check_interrupt();
  EXPECT_EQ(asked.times, 1);
  asked.answer = 1;
  wait();
  EXPECT_THROW(check_interrupt(), Interrupted);
}

TEST(Interrupt, IsThatOfTheInnermostScopeOfTheThread) {
  Asked outer{.answer = 1}, inner;
  const Interruptible around(ask, &outer);
  {
    const Interruptible within(ask, &inner);
    const Interruptible silent(nullptr, nullptr);
    wait();
    check_interrupt();
  }
  EXPECT_EQ(inner.times, 0);
  std::thread(check_interrupt).join();
  EXPECT_EQ(outer.times, 0);
  EXPECT_THROW(check_interrupt(), Interrupted);
}

// Who is asked may do work that would ask.
TEST(Interrupt, IsNotAskedWhileItIsAsked) {
  int times = 0;
  const auto works = [](void* user) -> std::int32_t {
    if (++*static_cast<int*>(user) > 3) return 1;  // it was asked again
    const Interruptible within([](void* again) -> std::int32_t { return ++*static_cast<int*>(again); }, user);
    wait();
    check_interrupt();
    return 0;
  };
  const Interruptible interruptible(works, &times);
  for (int i = 0; i < 2; ++i) {
    wait();
    check_interrupt();
  }
  EXPECT_EQ(times, 2);
}

TEST(Interrupt, NobodyIsAskedOutside) {
  Asked asked{.answer = 1};
  { const Interruptible over(ask, &asked); }
  wait();
  check_interrupt();
  EXPECT_EQ(asked.times, 0);
}

}  // namespace
}  // namespace stof
