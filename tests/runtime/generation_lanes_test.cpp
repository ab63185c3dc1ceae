// SPDX-License-Identifier: Apache-2.0
// What calls that let texts go on keep for each other on a device beside the host, played by the CPU: a stream, memory
// and recorded steps; and what none of them finds after an error.
#include "src/runtime/generation_lanes.h"

#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>
#include <thread>

#include "src/base/hash.h"
#include "src/fusion/fuse.h"
#include "src/graph/build.h"
#include "src/runtime/generate.h"
#include "tests/expect_error.h"
#include "tests/runtime/recording_device.h"
#include "tests/source_folder.h"

namespace stof {
namespace {

using Ids = std::vector<std::int32_t>;
constexpr std::int64_t kTokens = 800, kLongest = 200;

TokenBatch prompts_of(const std::vector<std::int64_t>& lengths) {
  TokenBatch batch;
  std::uint64_t seed = 3;
  for (const std::int64_t length : lengths) {
    Ids ids;
    for (std::int64_t i = 0; i < length; ++i)
      ids.push_back(static_cast<std::int32_t>(splitmix64(seed += 0x9E3779B97F4A7C15ull) % kTokens));
    batch.add(ids);
  }
  return batch;
}

// A model on the played device, and in a plain session.
struct Played {
  explicit Played(const Device& on = recording_device())
      : model(read_model(source_folder() / "tests/data/families/llama")),
        program(fused_by_default(build_graph(model, GraphResult::logits)), {.device = on, .longest = kLongest}),
        host(model, {.device = "cpu", .logits = true}) {}

  std::vector<Ids> generate(const std::vector<std::int64_t>& lengths, const GenerateOptions& options) {
    const TokenBatch prompts = prompts_of(lengths);
    std::vector<std::int64_t> numbers(lengths.size());
    std::iota(numbers.begin(), numbers.end(), 0);
    return generate_tokens({.program = program,
                            .lanes = lanes,
                            .limits = {.vocabulary = kTokens, .longest = kLongest},
                            .prompts = prompts,
                            .numbers = numbers,
                            .ends = {},
                            .options = options});
  }
  void expect_right(const std::vector<std::int64_t>& lengths, GenerateOptions options = {.tokens = 9}) {
    options.ends = Ids{};
    EXPECT_EQ(generate(lengths, options), host.generate(prompts_of(lengths), options));
  }

  Model model;
  Program program;
  Session host;
  GenerationLanes lanes{program.options().device};
};

TEST(GenerationLanes, KeepStreamMemoryAndRecordingsForTheNextCall) {
  Played played;
  const int streams = stream_counts().streams, recordings = stream_counts().recordings;
  played.expect_right({17, 5, 30});
  const std::int64_t held = played.lanes.bytes_held();
  EXPECT_GT(held, 0);
  EXPECT_EQ(stream_counts().recordings, recordings + 1);
  for (int call = 0; call < 3; ++call) played.expect_right({17, 5, 30});
  played.expect_right({16, 30, 3});  // others of these sizes
  EXPECT_EQ(stream_counts().streams, streams + 1);
  EXPECT_EQ(stream_counts().recordings, recordings + 1);
  EXPECT_EQ(played.lanes.bytes_held(), held);
}

TEST(GenerationLanes, RecordAgainWhatHadOtherSizesOrAddresses) {
  Played played;
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
  EXPECT_EQ(recorded(), 0);
  const std::int64_t held = played.lanes.bytes_held();
  played.expect_right({70, 90, 12}, {.tokens = 30});  // more of everything
  EXPECT_GT(played.lanes.bytes_held(), held);
  EXPECT_EQ(recorded(), 1);
  played.expect_right({9, 4}), played.expect_right({3});
  EXPECT_EQ(recorded(), 2);
}

TEST(GenerationLanes, AreOneForEachCallAtATime) {
  Played played;
  const int streams = stream_counts().streams;
  constexpr int kThreads = 4;
  std::vector<std::vector<Ids>> got(kThreads);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] { got[static_cast<std::size_t>(t)] = played.generate({5 + t, 20}, {.tokens = 12}); });
    for (std::thread& thread : threads) thread.join();
    for (int t = 0; t < kThreads; ++t)
      EXPECT_EQ(got[static_cast<std::size_t>(t)],
                played.host.generate(prompts_of({5 + t, 20}), {.tokens = 12, .ends = Ids{}}));
  }
  EXPECT_LE(stream_counts().streams, streams + kThreads);
}

// Nobody knows what such a call has left.
TEST(GenerationLanes, AreLostWithAnError) {
  Played played;
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

TEST(GenerationLanes, AreLostWithScoresThatAreNan) {
  Backend backend = recording_backend();
  backend.rows.highest = [](const RowShape& shape, const void*, std::int32_t* out) {
    std::fill_n(out, shape.rows, 3);
    out[shape.rows - 1] = -1;
  };
  Device device = recording_device();
  device.backend = &backend;
  Played played(device);
  EXPECT_ERROR(played.generate({5, 2, 8}, {.tokens = 4}), ErrorKind::invalid_argument, "a score of text 2 is NaN");
  EXPECT_EQ(played.lanes.bytes_held(), 0);
}

// Lanes that wait make room for those that work.
TEST(GenerationLanes, GiveUpTheirMemoryWhereItIsWanted) {
  Played played;
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

}  // namespace
}  // namespace stof
