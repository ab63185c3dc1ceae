// SPDX-License-Identifier: Apache-2.0
// Planning from several threads: of problems that have nothing to do with one another, and of new lengths by one
// Attention, which keeps what it planned.
#include <gtest/gtest.h>

#include <memory>

#include "tests/attention/expect_attention.h"
#include "tests/attention/random_problem.h"
#include "tests/threads/at_once.h"

namespace stof {
namespace {

constexpr int kThreads = 4;

TEST(Planner, PlansUnrelatedProblemsAtOnce) {
  constexpr unsigned kSeeds = 60;
  const Device device = open_device("cpu");
  std::vector<std::string> wrong(kThreads);
  std::vector<int> taken(kThreads, 0);
  at_once(kThreads, [&](int t) {
    const auto i = static_cast<std::size_t>(t);
    for (unsigned seed = 0; seed < kSeeds; ++seed) {
      const RandomOutcome outcome = try_random_problem(static_cast<unsigned>(t) * kSeeds + seed, device, "auto");
      taken[i] += outcome.taken ? 1 : 0;
      if (!outcome.wrong.empty()) wrong[i] = outcome.wrong;
    }
  });
  EXPECT_EQ(wrong, std::vector<std::string>(kThreads));
  for (const int count : taken) EXPECT_GE(count, 10);
}

// Items of other lengths in every problem: some are met by several threads at the same time.
ProblemShape ragged(int t) {
  ProblemShape what{.shape = {.batch = 3, .heads = 2, .kv_heads = 2, .queries = 60, .keys = 60, .head_dim = 16},
                    .q_lengths = {},
                    .kv_lengths = {}};
  for (const int length : {60, 20 + t, 40 + t / 2}) what.q_lengths.push_back(length);
  what.kv_lengths = what.q_lengths;
  return what;
}

TEST(Planner, PlansNewLengthsOnceForAllThreadsAtOnce) {
  const Mask mask = bigbird(8, 1, 3, 1, 2);  // depends on the length
  const Attention attention(mask, ragged(0).shape, open_device("cpu"));
  std::vector<std::unique_ptr<Problem>> problems;
  for (int t = 0; t < kThreads; ++t) problems.push_back(std::make_unique<Problem>(ragged(t), static_cast<unsigned>(t)));
  at_once(kThreads, [&](int t) {
    attention.prepare(30 + t % 2, 30 + t % 2);
    for (int run = 0; run < 3; ++run) {
      attention.run(problems[static_cast<std::size_t>(t)]->arguments());
      attention.workspace_bytes();
      attention.plans_made();
    }
  });
  for (const auto& problem : problems) EXPECT_EQ(difference_from_definition(*problem, mask), "");
  EXPECT_EQ(attention.plans_made(), 1 + 2 + 4 + 2);  // at first; 30, 31; 20 to 23; 40, 41
}

}  // namespace
}  // namespace stof
