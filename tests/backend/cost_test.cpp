// SPDX-License-Identifier: Apache-2.0
// Amounts of work do not depend on how blocks lie over a problem that does not fill them.
#include "src/backend/cpu/attention/cost.h"

#include <gtest/gtest.h>

#include "src/attention/live_share.h"
#include "src/mask/bind.h"

namespace stof::cpu {
namespace {

AttentionProblem problem_of(const char* text, std::int64_t length) {
  constexpr int kHeads = 2;
  const Mask mask = parse(text);
  const BoundMask bound(mask, {.queries = length, .keys = length, .heads = kHeads});
  AttentionProblem problem{.shape = {.heads = kHeads,
                                     .kv_heads = kHeads,
                                     .queries = length,
                                     .keys = length,
                                     .head_dim = 64,
                                     .dtype = DType::bf16},
                           .stats = measure(bound, kBlockSizes)};
  problem.partial_live = partial_live_share(bound);
  return problem;
}

TEST(Cost, CountsPairsInsideTheProblemOnly) {
  for (const std::int64_t length : {32, 64, 96, 128, 160, 608}) {
    const AttentionProblem all = problem_of("all", length);
    for (const BlockStats& stats : all.stats.blocks)
      EXPECT_NEAR(total_work(all, stats).pairs, 2.0 * static_cast<double>(length * length),
                  0.04 * static_cast<double>(length * length));
  }
}

// A pair in sixteen is allowed, so that every cell of 8 x 8 is live, and every block partial.
TEST(Cost, CountsTheSameLiveCellsAtEveryBlockSize) {
  for (const std::int64_t length : {32, 64, 96, 160}) {
    const AttentionProblem problem = problem_of("where((q + 4 * k) % 16 < 1 | (q - k) % 8 < 1)", length);
    for (const BlockStats& stats : problem.stats.blocks) {
      EXPECT_EQ(stats.full, 0);
      EXPECT_NEAR(total_work(problem, stats).pairs, 2.0 * static_cast<double>(length * length),
                  0.04 * static_cast<double>(length * length))
          << length << " " << stats.block_q;
    }
  }
}

}  // namespace
}  // namespace stof::cpu
