// SPDX-License-Identifier: Apache-2.0
#include "src/base/threads.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

namespace stof {
namespace {

// In a process of its own: clang's OpenMP counts once, at its start.
TEST(UsableProcessors, AreThoseThatTheProcessIsHeldTo) {
  const int before = usable_processors();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all) != 0) _exit(101);
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu)
      if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) _exit(102);
    _exit(usable_processors());
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_EQ(usable_processors(), before);
}

}  // namespace
}  // namespace stof
