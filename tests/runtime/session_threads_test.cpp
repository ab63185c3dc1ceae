// SPDX-License-Identifier: Apache-2.0
// How many threads sessions take: never more than they were asked to, however many run at the same time.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <latch>
#include <thread>

#include "stof/session.h"
#include "tests/runtime/small_bert.h"

namespace stof {
namespace {

TokenBatch texts() {
  TokenBatch batch;
  for (const int length : {96, 7, 33, 64, 50, 80}) {
    std::vector<std::int32_t> ids;
    for (int i = 0; i < length; ++i) ids.push_back(i % 50);
    batch.add(ids);
  }
  return batch;
}

std::ptrdiff_t threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

// The most threads that this process has while `callers` threads, each with a session of its own, embed. A caller stays
// until all have been counted, for its pool of threads goes with it.
std::ptrdiff_t most_threads(int callers, int threads) {
  std::latch done(callers), counted(1);
  std::vector<std::thread> calling;
  for (int c = 0; c < callers; ++c)
    calling.emplace_back([&] {
      const Session session(small_bert(), {.device = "cpu", .threads = threads});
      for (int run = 0; run < 30; ++run) session.embed(texts(), Pooling::mean);
      done.count_down();
      counted.wait();
    });
  std::ptrdiff_t most = 0;
  while (!done.try_wait()) {
    most = std::max(most, threads_of_this_process());
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  most = std::max(most, threads_of_this_process());
  counted.count_down();
  for (std::thread& thread : calling) thread.join();
  return most;
}

// In processes of their own: pools of threads that other tests woke would be counted. This thread only looks.
void expect_exactly(int callers, int threads) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(std::exit(most_threads(callers, threads) == 1 + callers * threads ? 0 : 1), testing::ExitedWithCode(0),
              "")
      << callers << " sessions of " << threads << " threads";
}

TEST(SessionThreadsDeathTest, OneOfOne) { expect_exactly(1, 1); }
TEST(SessionThreadsDeathTest, OneOfThree) { expect_exactly(1, 3); }
TEST(SessionThreadsDeathTest, ThreeOfOne) { expect_exactly(3, 1); }
TEST(SessionThreadsDeathTest, FourOfTwo) { expect_exactly(4, 2); }

}  // namespace
}  // namespace stof
