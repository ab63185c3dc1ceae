// SPDX-License-Identifier: Apache-2.0
// Times of nodes within a call, of numbers that are given, and of a model on the CPU.
#include "src/runtime/node_times.h"

#include <gtest/gtest.h>

#include <numeric>

#include "src/fusion/fuse.h"
#include "src/graph/build.h"
#include "tests/runtime/small_bert.h"

namespace stof {
namespace {

TEST(AddedTimes, AreWhatCallsTakeLongerForEachStep) {
  EXPECT_EQ(added_times({{2, 5, 5, 12}}), (std::vector<double>{3, 0, 7}));
  EXPECT_EQ(added_times({{4}}), std::vector<double>{});
}

// A round in which the clock is slower changes nothing.
TEST(AddedTimes, AreMediansOverRounds) {
  EXPECT_EQ(added_times({{2, 5, 12}, {20, 50, 120}, {2, 5, 12}}), (std::vector<double>{3, 7}));
}

// Medians 2, 2 and 2 of the three steps; the whole calls take 12, 9 and 6 more than an empty one, 9 in the middle.
TEST(AddedTimes, AddUpToTheWholeCall) {
  const std::vector<double> added = added_times({{0, 2, 4, 12}, {0, 5, 7, 9}, {0, 2, 4, 6}});
  EXPECT_DOUBLE_EQ(std::accumulate(added.begin(), added.end(), 0.0), 9);
  EXPECT_EQ(added, (std::vector<double>{3, 3, 3}));
}

TEST(NodeTimes, AreOfEveryNode) {
  const Model model = small_bert(2);
  const Graph graph = fused_by_default(build_bert(model));
  const Program program(graph, {.device = open_device("cpu"), .longest = model.config.max_positions});
  const NodeTimes times = node_times(program, graph, even_call(2, 16, 96), {.rounds = 3, .seconds_alone = 0.0005});
  EXPECT_LE(times.nodes.size(), graph.nodes.size());
  EXPECT_GT(times.nodes.size(), 10U);
  double sum = 0;
  for (const NodeTime& node : times.nodes) {
    EXPECT_GT(node.alone_us, 0) << node.work;
    sum += node.inside_us;
  }
  EXPECT_GT(times.whole_us, times.empty_us);
  EXPECT_LE(sum, (times.whole_us - times.empty_us) * 1.000001);
  // Both layers have the same works.
  EXPECT_EQ(times.nodes[times.nodes.size() - 1].work, times.nodes[times.nodes.size() / 2].work);
}

TEST(NodeTimes, AsText) {
  const NodeTimes times{
      .nodes = {{"embed 24", 2, 3}, {"linear 24>40", 5, 4.5}, {"linear 24>40", 5, 6}}, .empty_us = 1.5, .whole_us = 15};
  EXPECT_EQ(to_text(times),
            "node     alone    inside      more  us\n"
            "   0      2.00      3.00      1.00  embed 24\n"
            "   1      5.00      4.50     -0.50  linear 24>40\n"
            "   2      5.00      6.00      1.00  linear 24>40\n"
            "times    alone    inside      more  us, sums\n"
            "   1      2.00      3.00      1.00  embed 24\n"
            "   2     10.00     10.50      0.50  linear 24>40\n"
            "   3     12.00     13.50      1.50  all\n"
            "a call without nodes takes 1.50 us, with all 15.00\n");
}

}  // namespace
}  // namespace stof
