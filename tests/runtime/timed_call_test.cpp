// SPDX-License-Identifier: Apache-2.0
// What a timed call computes with: bytes that repeat, brought once.
#include "src/runtime/timed_call.h"

#include <gtest/gtest.h>

#include <utility>

#include "src/graph/infer.h"
#include "src/runtime/measured_times.h"
#include "tests/runtime/recording_device.h"

namespace stof {
namespace {

constexpr EvenCall kCall{.texts = 4, .length = 256, .bucket = {.rows = 1024, .texts = 4, .longest = 256}};

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
  TimedCall call(program, kCall);
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
  TimedCall call(program, kCall);
  call.fill(0, counted(61), 0, 7);
  EXPECT_EQ(call.read(0, 7, 1), std::vector{std::byte{0}});
  EXPECT_EQ(call.read(0, 6, 1), std::vector{std::byte{7}});
}

INSTANTIATE_TEST_SUITE_P(Devices, OnBothKinds, ::testing::Bool(),
                         [](const auto& device) { return device.param ? "beside_the_host" : "the_host"; });

// 1024 rows of 512 columns and then of 2048: what was held for the first is given back before the second is asked for.
// A call of more texts than tokens would fill, and one whose texts are no power of two: what is timed is what was
// asked.
TEST(TimedCall, TheTextsAreThoseThatWereAskedFor) {
  const Graph graph = activated(8);
  const Program here(graph, {.device = open_device("cpu"), .longest = 256});
  const Program beside(graph, {.device = recording_device(), .longest = 256});
  for (const auto& [texts, length] : {std::pair(33, 1), std::pair(33, 100), std::pair(3, 7)})
    for (const Program* program : {&here, &beside}) {
      TimedCall call(*program, even_call(texts, length, 256));
      EXPECT_EQ(call.rows(), texts * length);
      call.run();
    }
}

TEST(TimedCall, MemoryThatIsSharedIsHeldOnce) {
  const Graph narrow = activated(512), wide = activated(2048);
  const ProgramOptions options{.device = recording_device(), .longest = 256};
  const Program first(narrow, options), second(wide, options);
  const auto needed = [](const Program& program) {
    return static_cast<std::size_t>(program.arena_bytes(kCall.bucket.rows));
  };
  ASSERT_GT(needed(second), 2 * needed(first));
  GrowingMemory shared;
  TimedCall small(first, kCall, 1, &shared);
  small.run();
  const std::size_t beside = device_bytes_held() - needed(first);  // inputs and the workspace of one
  most_device_bytes_together() = needed(second) + 2 * beside;
  TimedCall large(second, kCall, 1, &shared);
  most_device_bytes_together() = SIZE_MAX;
  EXPECT_EQ(device_bytes_held(), needed(second) + 2 * beside);
  // Both go on, where it is now.
  for (TimedCall* call : {&large, &small}) {
    const std::vector<std::byte> piece(4, std::byte{0x3f});
    call->fill(0, piece, 0, 4096);
    call->run();
    EXPECT_EQ(call->read(1, 0, 4096), std::vector<std::byte>(4096, std::byte{0x3f}));
  }
}

// Whoever times a recording holds the memory that it was made with.
TEST(TimedCall, ARecordingOutlivesMemoryThatGrows) {
  const Graph narrow = activated(512), wide = activated(2048);
  const ProgramOptions options{.device = recording_device(), .longest = 256};
  const Program first(narrow, options), second(wide, options);
  GrowingMemory shared;
  TimedCall small(first, kCall, 1, &shared);
  const OneTime timed = small.timer();
  const std::weak_ptr<const void> before = shared.held();
  TimedCall large(second, kCall, 1, &shared);
  EXPECT_FALSE(before.expired());
  EXPECT_GE(timed(), 0);
}

// A work with 1024 rows of 512 columns, 2 MB: a few of its rows come from the host, and the indices of a call.
TEST(WorkTimer, TheHostBringsFewRows) {
  const Graph graph = activated(512);
  stream_counts().bytes_in = 0;
  WorkTimer timer({.text = "activate", .graph = graph, .node = graph.nodes[1]},
                  {.device = recording_device(), .longest = 256}, kCall);
  EXPECT_LT(stream_counts().bytes_in, 200'000U);
  const int before = times_taken();
  EXPECT_EQ(timer.measure("", 0.0001).wrong, "");
  EXPECT_EQ(times_taken(), before + 1);
  EXPECT_EQ(timer.measure("", std::nullopt).wrong, "");  // compared, as far as there is something to compare
  EXPECT_EQ(times_taken(), before + 1);
}

// 1024 rows of x and y: two works of 512 columns and what they are made from do not fit into 6 MB.
TEST(MeasuredTimes, HoldsNoMoreThanItMay) {
  const Graph graph = activated(512);
  TimeLog log({});
  MeasuredTimes times({.program = {.device = open_device("cpu"), .longest = 256},
                       .call = kCall,
                       .seconds_a_time = 0.0001,
                       .most_bytes = 6e6},
                      log);
  for (const char* text : {"a", "b", "c"}) {
    EXPECT_TRUE(times.measure({.text = text, .graph = graph, .node = graph.nodes[1]}, {}));
    EXPECT_GT(times.held_bytes(), 0);
    EXPECT_LE(times.held_bytes(), 6e6);
  }
  times.release();
  EXPECT_EQ(times.held_bytes(), 0);
}

}  // namespace
}  // namespace stof
