// SPDX-License-Identifier: Apache-2.0
// Texts that go on where a device works beside the host, played by the CPU: steps are recorded once for each number of
// texts, and give what a plain session gives.
#include "src/runtime/generation.h"

#include <gtest/gtest.h>

#include "src/base/hash.h"
#include "src/fusion/fuse.h"
#include "src/graph/build.h"
#include "src/graph/infer.h"
#include "src/graph/simplify.h"
#include "tests/expect_error.h"
#include "tests/runtime/recording_device.h"
#include "tests/runtime/small_bert.h"
#include "tests/source_folder.h"

namespace stof {
namespace {

constexpr std::int64_t kTokens = 800, kLongest = 200;

TokenBatch prompts_of(const std::vector<std::int64_t>& lengths) {
  TokenBatch batch;
  std::uint64_t seed = 1;
  for (const std::int64_t length : lengths) {
    std::vector<std::int32_t> ids;
    for (std::int64_t i = 0; i < length; ++i)
      ids.push_back(static_cast<std::int32_t>(splitmix64(seed += 0x9E3779B97F4A7C15ull) % kTokens));
    batch.add(ids);
  }
  return batch;
}

// A model with its texts, here and in a plain session that scores each text as a whole.
struct Played {
  explicit Played(const std::string& family, const std::string& mask = "all")
      : model(read_model(source_folder() / "tests/data/families" / family)),
        program(restrict_attention(fused_by_default(build_graph(model, GraphResult::logits)), parse(mask)),
                {.device = recording_device(), .longest = kLongest}),
        host(model, {.device = "cpu", .mask = parse(mask), .logits = true}) {}

  void begin(const std::vector<std::int64_t>& lengths, std::int64_t capacity = 96, Asked asked = Asked::scores) {
    const TokenBatch prompts = prompts_of(lengths);
    for (std::size_t text = 0; text < lengths.size(); ++text)
      texts.emplace_back(prompts.ids.begin() + prompts.offsets[text], prompts.ids.begin() + prompts.offsets[text + 1]);
    generation.emplace(program, *lane, std::ssize(lengths), capacity, asked);
    expect_scores(generation->begin(make_rows(prompts, {.vocabulary = kTokens, .longest = kLongest}, false)));
  }
  void go_on(std::int32_t first_token) {
    std::vector<std::int32_t> tokens;
    for (auto& text : texts) {
      tokens.push_back(first_token++ % kTokens);
      text.push_back(tokens.back());
    }
    expect_scores(generation->go_on(tokens, 0));
  }
  void drop(std::size_t text) {
    generation->drop(static_cast<std::int64_t>(text));
    texts[text] = texts.back();
    texts.pop_back();
  }
  void expect_scores(const Tensor& got) const {
    TokenBatch whole;
    for (const auto& text : texts) whole.add(text);
    const Tensor want = host.embed(whole, Pooling::last);
    if (got.dtype() == DType::i32) return expect_likeliest(got, want);
    ASSERT_EQ(got.shape(), want.shape());
    for (std::int64_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(got.as<float>()[i], want.as<float>()[i], 5e-5) << "component " << i;
  }

  static void expect_likeliest(const Tensor& got, const Tensor& scores) {
    const std::int64_t columns = scores.shape()[1];
    ASSERT_EQ(got.shape(), Shape{scores.shape()[0]});
    for (std::int64_t text = 0; text < got.size(); ++text) {
      const float* const row = scores.as<float>() + text * columns;
      EXPECT_EQ(got.as<std::int32_t>()[text], std::max_element(row, row + columns) - row) << "text " << text;
    }
  }

  Model model;
  Program program;
  Session host;
  GenerationLanes lanes{program.options().device};
  GenerationLanes::Lease lane = lanes.take();
  std::vector<std::vector<std::int32_t>> texts;
  std::optional<Generation> generation;
};

TEST(Generation, HasTheScoresOfTheWholeTextAtEachStep) {
  for (const char* family : {"llama", "mistral", "qwen2", "qwen3", "gpt2"}) {
    SCOPED_TRACE(family);
    Played played(family);
    played.begin({17, 1, 40, 5});
    const int before = stream_counts().recordings;
    for (int step = 0; step < 6; ++step) played.go_on(31 * step);
    EXPECT_EQ(stream_counts().recordings, before + 1);
    played.drop(1);
    for (int step = 0; step < 4; ++step) played.go_on(17 * step);
    played.drop(2);
    played.drop(0);
    for (int step = 0; step < 4; ++step) played.go_on(13 * step);
    EXPECT_EQ(stream_counts().recordings, before + 3);  // of four texts, of three and of one
    EXPECT_EQ(played.generation->texts(), 1);
  }
}

// No scores come to the host, and a step's tokens in the same work.
TEST(Generation, FindsTheLikeliestTokensThere) {
  for (const char* family : {"llama", "qwen3", "gpt2"}) {
    SCOPED_TRACE(family);
    Played played(family);
    const std::size_t before = stream_counts().bytes_out;
    played.begin({17, 1, 40, 5}, 96, Asked::likeliest);
    for (int step = 0; step < 5; ++step) played.go_on(31 * step);
    EXPECT_EQ(stream_counts().bytes_out, before + 4 * 4 * 6);
    played.drop(1);
    for (int step = 0; step < 3; ++step) played.go_on(17 * step);
    EXPECT_EQ(stream_counts().bytes_out, before + 4 * (4 * 6 + 3 * 3));
  }
}

// Rotations write keys and values of steps where they are kept; without them, and in prompts, each layer copies them.
TEST(Generation, CopiesKeysOnlyWhereNothingElseMovesThem) {
  for (const char* family : {"llama", "qwen3", "gpt2"}) {
    SCOPED_TRACE(family);
    Played played(family);
    const std::int64_t layers = played.model.config.layers;
    auto copies = [before = stream_counts().row_copies.load()]() mutable {
      const int more = stream_counts().row_copies - before;
      before += more;
      return more;
    };
    played.begin({9, 21, 4});
    EXPECT_GT(copies(), layers);  // and rows that are wanted
    for (int step = 0; step < 3; ++step) {
      played.go_on(5 * step);
      EXPECT_EQ(copies(), family == std::string("gpt2") ? layers : 0);
    }
  }
}

// More keys than were planned for are planned for anew, and recorded anew.
TEST(Generation, PlansForMoreKeysAsTextsGrow) {
  Played played("llama", "window(20) | sink(2)");
  played.begin({58, 9}, 200);
  const int before = stream_counts().recordings;
  for (int step = 0; step < 6; ++step) played.go_on(7 * step);  // up to 64 keys
  EXPECT_EQ(stream_counts().recordings, before + 1);
  const std::int64_t plans = played.program.plans_made();
  for (int step = 0; step < 20; ++step) played.go_on(3 * step);
  EXPECT_EQ(stream_counts().recordings, before + 2);
  EXPECT_GT(played.program.plans_made(), plans);
}

// Planned for the longest text there may be, whatever a step has.
TEST(Generation, HoldsArraysOverPositions) {
  Played played("llama", "documents([0,5,30,150])");
  played.begin({33, 1, 12});
  for (int step = 0; step < 8; ++step) played.go_on(11 * step);
  played.drop(0);
  for (int step = 0; step < 4; ++step) played.go_on(5 * step);
}

TEST(Generation, GoesOnWithoutMemoryForRecordings) {
  Played played("qwen3", "window(6) | sink(2)");
  played.begin({12, 20});
  recordings_fit() = false;
  for (int step = 0; step < 4; ++step) played.go_on(7 * step);
  recordings_fit() = true;
}

TEST(Generation, SaysWhatKeysNeedWhereThereIsNoMemory) {
  const Played played("llama");
  most_device_bytes() = 1000;
  EXPECT_ERROR(
      Generation(played.program, *played.lane, 3, 96), ErrorKind::device,
      "out of memory: 221184 bytes wanted; keys and values of 3 texts of 96 tokens need 221184 bytes: run fewer "
      "texts together, or fewer tokens");
  most_device_bytes() = SIZE_MAX;
}

TEST(Generation, NeedsKeysThatCanBeKept) {
  const Model model = small_bert();
  Graph detached = build_bert(model);
  infer(detached);
  const Program program(detached, {.device = open_device("cpu"), .longest = 96});
  const std::string device = program.options().device.caps.name;
  GenerationLanes lanes(program.options().device);
  EXPECT_ERROR(Generation(program, *lanes.take(), 1, 8), ErrorKind::unsupported,
               "keys cannot be kept for this model on " + device + "; accepted: a decoder");
}

}  // namespace
}  // namespace stof
