// SPDX-License-Identifier: Apache-2.0
// The estimate of when the last core is done, against a simulation of the schedule that `spread` runs: every piece by
// itself, the costliest first, to the core that is idle first.
#include "src/backend/cpu/attention/makespan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "src/attention/live_share.h"
#include "src/backend/cpu/attention/cost.h"
#include "src/layout/pack.h"

namespace stof::cpu {
namespace {

double simulate(std::vector<double> costs, int cores, int parts) {
  std::sort(costs.begin(), costs.end(), std::greater());
  std::vector<double> busy_until(static_cast<std::size_t>(cores), 0.0);
  const std::size_t whole = costs.size() - std::min(costs.size(), static_cast<std::size_t>(cores));
  for (std::size_t i = 0; i < costs.size(); ++i)
    for (int part = 0; part < (i < whole ? 1 : parts); ++part)
      *std::min_element(busy_until.begin(), busy_until.end()) += costs[i] / (i < whole ? 1 : parts);
  return *std::max_element(busy_until.begin(), busy_until.end());
}

// Of every row-block of every head, by its own entries.
std::vector<double> piece_costs(const BlockLayout& layout, int heads, double live, int head_dim) {
  const BlockSize size{layout.format.block_q, layout.format.block_kv};
  std::vector<double> costs;
  for (std::int64_t row = 0; row < layout.row_blocks; ++row) {
    double full = 0, partial = 0;
    for (std::int64_t i = layout.row_begin[static_cast<std::size_t>(row)];
         i < layout.row_begin[static_cast<std::size_t>(row + 1)]; ++i)
      (layout.entries[static_cast<std::size_t>(i)].bitmap < 0 ? full : partial) += 1;
    for (int head = 0; head < heads; ++head)
      costs.push_back(block_ns(block_work(size, full, partial, live, head_dim), DType::f32));
  }
  return costs;
}

TEST(Makespan, IsWithinFivePercentOfTheSchedule) {
  for (const char* text : {"all", "causal", "window(64)", "longformer(32,8)", "bigbird(64,3,2,3,1)",
                           "documents([0,11,20,63]) & causal", "causal & window(200) | global(16)"})
    for (const std::int64_t length : {64, 192, 640, 2048, 6400})
      for (const int heads : {1, 3, 12}) {
        const Mask mask = parse(text);
        const BoundMask bound(mask, {.queries = length, .keys = length});
        const MaskStats stats = measure(bound, std::array{BlockSize{64, 64}});
        const double live = partial_live_share(bound);
        const std::vector<double> costs = piece_costs(pack_blocks(bound, {}), heads, live, 64);
        std::vector<Pieces> pieces;
        for (const BlockStats::Bin& bin : stats.blocks[0].row_blocks)
          pieces.push_back({.cost = block_ns(block_work({64, 64}, bin.full, bin.partial, live, 64), DType::f32),
                            .count = bin.count * heads});
        for (const int cores : {1, 2, 7, 16, 64})
          for (const int parts : {1, 4}) {
            const double expected = simulate(costs, cores, parts), estimate = makespan(pieces, cores, parts);
            EXPECT_NEAR(estimate / expected, 1, 0.05)
                << text << " " << length << " " << heads << " " << cores << " " << parts;
          }
      }
}

TEST(Makespan, NothingTakesNoTime) { EXPECT_EQ(makespan({}, 4, 1), 0); }

}  // namespace
}  // namespace stof::cpu
