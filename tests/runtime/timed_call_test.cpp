// SPDX-License-Identifier: Apache-2.0
// What a timed call computes with: bytes that repeat, brought once.
#include "src/runtime/timed_call.h"

#include <gtest/gtest.h>

#include "src/graph/infer.h"
#include "src/runtime/work_timer.h"
#include "tests/runtime/recording_device.h"

namespace stof {
namespace {

constexpr Bucket kBucket{.rows = 1024, .texts = 4, .longest = 256};

// relu of an input.
Graph activated(std::int64_t columns) {
  Graph graph;
  const ValueId x = graph.add_value("x"), y = graph.add_value("y");
  graph.nodes.push_back({.op = op::Input{columns}, .inputs = {}, .weights = {}, .output = x});
  graph.nodes.push_back({.op = op::Activate{Activation::relu}, .inputs = {x}, .weights = {}, .output = y});
  graph.result = y;
  infer(graph);
  return graph;
}

std::vector<std::byte> counted(std::size_t bytes) {
  std::vector<std::byte> piece(bytes);
  for (std::size_t i = 0; i < bytes; ++i) piece[i] = static_cast<std::byte>(i + 1);
  return piece;
}

class OnBothKinds : public ::testing::TestWithParam<bool> {
 protected:
  Device device_ = GetParam() ? recording_device() : open_device("cpu");
};

// The last piece is cut; what lies in front and behind stays as it was.
TEST_P(OnBothKinds, APieceIsRepeatedFromAnOffsetOn) {
  const Graph graph = activated(8);
  const Program program(graph, {.device = device_, .longest = 256});
  TimedCall call(program, kBucket);
  const std::vector<std::byte> piece = counted(61);
  call.fill(0, piece, 100, 10'000);
  const std::vector<std::byte> all = call.read(0, 0, 20'000);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::byte wanted = i >= 100 && i < 10'100 ? piece[(i - 100) % 61] : std::byte{0};
    ASSERT_EQ(all[i], wanted) << i;
  }
}

TEST_P(OnBothKinds, ALongPieceIsCut) {
  const Graph graph = activated(8);
  const Program program(graph, {.device = device_, .longest = 256});
  TimedCall call(program, kBucket);
  call.fill(0, counted(61), 0, 7);
  EXPECT_EQ(call.read(0, 7, 1), std::vector{std::byte{0}});
  EXPECT_EQ(call.read(0, 6, 1), std::vector{std::byte{7}});
}

INSTANTIATE_TEST_SUITE_P(Devices, OnBothKinds, ::testing::Bool(),
                         [](const auto& device) { return device.param ? "beside_the_host" : "the_host"; });

// A work with 1024 rows of 512 columns, 2 MB: a few of its rows come from the host, and the indices of a call.
TEST(WorkTimer, TheHostBringsFewRows) {
  const Graph graph = activated(512);
  stream_counts().bytes_in = 0;
  WorkTimer timer({.text = "activate", .graph = graph, .node = graph.nodes[1]},
                  {.device = recording_device(), .longest = 256}, kBucket);
  EXPECT_LT(stream_counts().bytes_in, 200'000U);
  const int before = times_taken();
  EXPECT_EQ(timer.measure("", 0.0001).wrong, "");
  EXPECT_EQ(times_taken(), before + 1);
}

}  // namespace
}  // namespace stof
