// SPDX-License-Identifier: Apache-2.0
#include "src/base/threads.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace stof {
namespace {

TEST(UsableProcessors, AreThoseThatTheProcessIsHeldTo) {
  const int before = usable_processors();
  int held = 0;
  std::thread([&held] {  // the affinity is a thread's own, and ends with it
    cpu_set_t all, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu)
      if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    held = usable_processors();
  })
      .join();
  EXPECT_EQ(held, 1);
  EXPECT_EQ(usable_processors(), before);
}

}  // namespace
}  // namespace stof
