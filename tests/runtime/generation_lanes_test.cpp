// SPDX-License-Identifier: Apache-2.0
// What calls that let texts go on keep for each other on a device beside the host, played by the CPU: a stream, memory
// and recorded steps; and what none of them finds after an error.
#include "src/runtime/generation_lanes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/expect_error.h"
#include "tests/runtime/held_planner.h"
#include "tests/runtime/played_calls.h"

namespace stof {
namespace {

TEST(GenerationLanes, KeepStreamMemoryAndRecordingsForTheNextCall) {
  PlayedCalls played;
  const int streams = stream_counts().streams, recordings = stream_counts().recordings;
  played.expect_right({17, 5, 30});
  const std::int64_t held = played.lanes.bytes_held();
  EXPECT_GT(held, 0);
  EXPECT_EQ(stream_counts().recordings, recordings + 1);  // of steps; prompts come for the first time
  for (int call = 0; call < 3; ++call) played.expect_right({17, 5, 30});
  played.expect_right({16, 30, 3});  // others of these sizes
  EXPECT_EQ(stream_counts().streams, streams + 1);
  EXPECT_EQ(stream_counts().recordings, recordings + 2);
  EXPECT_EQ(played.lanes.bytes_held(), held);
}

TEST(GenerationLanes, RecordAgainWhatHadOtherSizesOrAddresses) {
  PlayedCalls played;
  played.expect_right({9, 4});
  int recordings = stream_counts().recordings;
  const auto recorded = [&] {
    return stream_counts().recordings - std::exchange(recordings, stream_counts().recordings);
  };
  played.expect_right({9, 4}, {.tokens = 9, .temperature = 0.7, .seed = 5});
  EXPECT_EQ(recorded(), 1);  // whose scores come to the host
  played.expect_right({3});
  EXPECT_EQ(recorded(), 1);  // of one text
  played.expect_right({9, 4}), played.expect_right({9, 4}, {.tokens = 9, .temperature = 0.7, .seed = 6});
  EXPECT_EQ(recorded(), 2);  // prompts, each for the second time
  played.expect_right({9, 4}), played.expect_right({9, 4}, {.tokens = 9, .temperature = 0.7, .seed = 7});
  EXPECT_EQ(recorded(), 0);
  const std::int64_t held = played.lanes.bytes_held();
  played.expect_right({70, 90, 12}, {.tokens = 30});  // more of everything
  EXPECT_GT(played.lanes.bytes_held(), held);
  EXPECT_EQ(recorded(), 1);
  played.expect_right({9, 4}), played.expect_right({3});
  EXPECT_EQ(recorded(), 2);
}

// Texts of as many capacities as prompts have lengths, of which eight an octave differ: plans are for powers of two.
TEST(GenerationLanes, PlanForPowersOfTwoWhateverTextsHaveRoomFor) {
  PlayedCalls played;
  played.expect_right({66}, {.tokens = 4}), played.expect_right({130}, {.tokens = 4});
  played.expect_right({100}, {.tokens = 4});  // whose prompt is longer than 64, and no longer than 128
  played.expect_right({192}, {.tokens = 4});  // up to 200, the model's positions
  const std::int64_t plans = played.program.plans_made();
  for (std::int64_t length = 67; length < 196; length += 7) {
    SCOPED_TRACE(length);
    played.expect_right({length}, {.tokens = 4});
  }
  EXPECT_EQ(played.program.plans_made(), plans);
}

// Neither for plans of prompts nor of steps, by which this call begins and goes on.
TEST(GenerationLanes, DoNotWaitForPlansOfOtherSizes) {
  const Backend backend = HeldPlanner::backend(recording_backend());
  Device device = recording_device();
  device.backend = &backend;
  PlayedCalls played(device);
  played.expect_right({11, 6});
  const auto of_prompts = [&] { played.program.plans(8, 128); };
  const auto of_steps = [&] { played.program.step_plans(8, 128); };
  for (const std::function<void()>& plan : {std::function<void()>(of_prompts), std::function<void()>(of_steps)}) {
    HeldPlanner planner(plan);
    played.expect_right({11, 6});
    EXPECT_GT(played.program.plans_made(), 0);
    EXPECT_TRUE(planner.release());
  }
}

TEST(GenerationLanes, ForgetWhatWasNotWantedForLongest) {
  const Device device = recording_device();
  GenerationLanes lanes(device);
  GenerationLanes::Lease lane = lanes.take();
  const auto is_new = [&](std::int64_t texts) {
    bool found = false;
    (*lane).step({.texts = texts}, found);
    return found;
  };
  constexpr auto kMost = static_cast<std::int64_t>(GenerationLane::kMostSteps);
  for (std::int64_t texts = 1; texts <= kMost; ++texts) EXPECT_TRUE(is_new(texts));
  EXPECT_FALSE(is_new(1));
  EXPECT_TRUE(is_new(kMost + 1));
  EXPECT_FALSE(is_new(1));
  EXPECT_TRUE(is_new(2));
  EXPECT_FALSE(is_new(4));
}

std::vector<std::weak_ptr<const int>>& written() {
  static std::vector<std::weak_ptr<const int>> by_graphs;
  return by_graphs;
}

// Whose kernels write memory besides their results, as those of GPUs do.
Backend writing_backend() {
  static const std::vector<AttentionKernel> kernels = [] {
    std::vector<AttentionKernel> made(cpu_backend.attention.begin(), cpu_backend.attention.end());
    for (AttentionKernel& kernel : made)
      kernel.run = [](const AttentionPlan& plan, const ArrangedMask& mask, const AttentionCall& call,
                      const Device& device) {
        if (call.held != nullptr) {
          const auto memory = std::make_shared<const int>(0);
          written().push_back(memory);
          call.held->push_back(memory);
        }
        std::ranges::find(cpu_backend.attention, plan.kernel, &AttentionKernel::name)->run(plan, mask, call, device);
      };
    return made;
  }();
  Backend backend = recording_backend();
  backend.attention = kernels;
  return backend;
}

// What graphs write is theirs, and goes with the lane.
TEST(GenerationLanes, HoldWhatTheirRecordingsWrite) {
  const Backend backend = writing_backend();
  Device device = recording_device();
  device.backend = &backend;
  PlayedCalls played(device);
  const auto held = [] {
    return std::ranges::count_if(written(), [](const auto& memory) { return !memory.expired(); });
  };
  for (int call = 0; call < 2; ++call) played.expect_right({11, 6});
  EXPECT_GT(held(), 0);
  const auto ends_it = [](std::int64_t, std::int32_t) { throw std::runtime_error("enough"); };
  EXPECT_THROW(played.generate({11, 6}, {.tokens = 9, .token = ends_it}), std::runtime_error);
  EXPECT_EQ(held(), 0);
}

// Nobody knows what such a call has left.
TEST(GenerationLanes, AreLostWithAnError) {
  PlayedCalls played;
  played.expect_right({11, 6});
  int token = 0;
  const auto ends_it = [&](std::int64_t, std::int32_t) {
    if (++token == 7) throw std::runtime_error("enough");
  };
  EXPECT_THROW(played.generate({11, 6}, {.tokens = 9, .token = ends_it}), std::runtime_error);
  EXPECT_EQ(played.lanes.bytes_held(), 0);
  const int streams = stream_counts().streams;
  played.expect_right({11, 6});
  EXPECT_EQ(stream_counts().streams, streams + 1);
}

TEST(GenerationLanes, AreKeptWhereACallIsStopped) {
  PlayedCalls played;
  played.expect_right({11, 6});
  int token = 0;
  const auto ends_it = [&](std::int64_t, std::int32_t) { return ++token == 7 ? Stop::all : Stop::nothing; };
  played.generate({11, 6}, {.tokens = 9, .stop = ends_it});
  EXPECT_EQ(token, 7);
  const int streams = stream_counts().streams, recordings = stream_counts().recordings;
  played.expect_right({11, 6});
  EXPECT_EQ(stream_counts().streams, streams);
  EXPECT_EQ(stream_counts().recordings, recordings);
}

TEST(GenerationLanes, AreLostWithScoresThatAreNan) {
  Backend backend = recording_backend();
  backend.rows.highest = [](const RowShape& shape, const void*, std::int32_t* out) {
    std::fill_n(out, shape.rows, 3);
    out[shape.rows - 1] = -1;
  };
  Device device = recording_device();
  device.backend = &backend;
  PlayedCalls played(device);
  EXPECT_ERROR(played.generate({5, 2, 8}, {.tokens = 4}), ErrorKind::invalid_argument, "a score of text 2 is NaN");
  EXPECT_EQ(played.lanes.bytes_held(), 0);
}

// Lanes that wait make room for those that work.
TEST(GenerationLanes, GiveUpTheirMemoryWhereItIsWanted) {
  PlayedCalls played;
  {
    GenerationLanes::Lease first = played.lanes.take(), second = played.lanes.take();
    (*first).reserve_keys(100000), (*second).reserve_keys(300000);
    first.keep(), second.keep();
  }
  EXPECT_EQ(played.lanes.bytes_held(), 400000);
  most_device_bytes_together() = device_bytes_held() + 1000;
  const GenerationLanes::Lease lane = played.lanes.take();  // the second one
  (*lane).reserve_keys(350000);
  EXPECT_EQ(played.lanes.bytes_held(), 350000);
  EXPECT_ERROR((*lane).reserve_activations(200000), ErrorKind::device, "out of memory: 200000 bytes wanted");
  EXPECT_EQ(played.lanes.bytes_held(), 350000);
  most_device_bytes_together() = SIZE_MAX;
  EXPECT_FALSE(played.lanes.drop_waiting());
}

// Of the device, for plans: more is out of memory.
std::atomic<std::size_t>& most_device_bytes_beside_plans() {
  static std::atomic<std::size_t> bytes = SIZE_MAX;
  return bytes;
}
Backend planning_backend() {
  Backend backend = recording_backend();
  backend.attention_block_sizes = [](const AttentionShape& shape, std::int64_t alike_heads) {
    if (device_bytes_held() > most_device_bytes_beside_plans()) fail(ErrorKind::device, "out of memory: for a plan");
    return cpu_backend.attention_block_sizes(shape, alike_heads);
  };
  return backend;
}

TEST(GenerationLanes, GiveUpTheirMemoryForPlans) {
  const Backend backend = planning_backend();
  Device device = recording_device();
  device.backend = &backend;
  PlayedCalls played(device);
  played.expect_right({150}), played.expect_right({60}, {.tokens = 1});
  {
    GenerationLanes::Lease first = played.lanes.take(), second = played.lanes.take();
    (*second).reserve_keys(10'000'000);
    second.keep(), first.keep();
  }
  most_device_bytes_beside_plans() = device_bytes_held() - 5'000'000;
  played.expect_right({70});  // of a prompt
  EXPECT_LT(device_bytes_held(), most_device_bytes_beside_plans());
  {
    GenerationLanes::Lease first = played.lanes.take(), second = played.lanes.take();
    (*second).reserve_keys(10'000'000);
    second.keep(), first.keep();
  }
  EXPECT_GT(device_bytes_held(), most_device_bytes_beside_plans());
  played.expect_right({50}, {.tokens = 4});  // of steps: there was a prompt of the size
  EXPECT_LT(device_bytes_held(), most_device_bytes_beside_plans());
  most_device_bytes_beside_plans() = 0;
  EXPECT_ERROR(played.generate({20, 20}, {.tokens = 9}), ErrorKind::device, "out of memory: for a plan");
  most_device_bytes_beside_plans() = SIZE_MAX;
}

// Of what is not theirs.
TEST(GenerationLanes, HaveOthersMakeRoom) {
  const Device device = recording_device();
  int asked = 0;
  bool there = true;
  GenerationLanes lanes(device, [&] {
    ++asked;
    return std::exchange(there, false);
  });
  int tried = 0;
  const auto work = [&] {
    if (++tried < 3) fail(ErrorKind::device, "out of memory: 9 bytes wanted");
    return tried;
  };
  EXPECT_ERROR(lanes.with_room(work), ErrorKind::device, "out of memory: 9 bytes wanted");
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(lanes.with_room(work), 3);
  EXPECT_EQ(asked, 1);
  tried = 1, there = true;
  EXPECT_EQ(lanes.with_room(work), 3);
  EXPECT_EQ(asked, 2);
  const auto fails = []() -> int { fail(ErrorKind::device, "a kernel failed"); };
  EXPECT_ERROR(lanes.with_room(fails), ErrorKind::device, "a kernel failed");
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace stof
