// SPDX-License-Identifier: Apache-2.0
// Calls that let texts go on at the same time, on a device beside the host that the CPU plays: each has a lane.
#include <gtest/gtest.h>

#include <thread>

#include "tests/runtime/played_calls.h"

namespace stof {
namespace {

TEST(GenerationLanes, AreOneForEachCallAtATime) {
  PlayedCalls played;
  const int streams = stream_counts().streams;
  constexpr int kThreads = 4;
  std::vector<std::vector<std::vector<std::int32_t>>> got(kThreads);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] { got[static_cast<std::size_t>(t)] = played.generate({5 + t, 20}, {.tokens = 12}); });
    for (std::thread& thread : threads) thread.join();
    for (int t = 0; t < kThreads; ++t)
      EXPECT_EQ(
          got[static_cast<std::size_t>(t)],
          played.host.generate(random_prompts({5 + t, 20}, 3), {.tokens = 12, .ends = std::vector<std::int32_t>{}}));
  }
  EXPECT_LE(stream_counts().streams, streams + kThreads);
}

}  // namespace
}  // namespace stof
