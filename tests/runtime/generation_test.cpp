// SPDX-License-Identifier: Apache-2.0
// Texts that go on where a device works beside the host, played by the CPU: steps are recorded once for each number of
// texts, and give what a plain session gives.
#include "src/runtime/generation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/graph/build.h"
#include "src/graph/infer.h"
#include "tests/expect_error.h"
#include "tests/runtime/going_on.h"
#include "tests/runtime/recording_device.h"
#include "tests/runtime/small_bert.h"

namespace stof {
namespace {

// On a device played by the CPU.
struct Played : GoingOn {
  explicit Played(const std::string& family, const std::string& mask = "all")
      : GoingOn(family, mask, recording_device(), DType::f32, 2e-5) {}
};

TEST(Generation, HasTheScoresOfTheWholeTextAtEachStep) {
  for (const char* family : {"llama", "mistral", "qwen2", "qwen3", "phi3", "phi4", "gemma2", "gemma3", "gpt2"}) {
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

// Of one bucket, whatever their lengths; what rows are rounded up by is in no text's way.
TEST(Generation, RecordsPromptsOfOneSize) {
  for (const char* family : {"llama", "qwen3", "gpt2"}) {
    SCOPED_TRACE(family);
    Played played(family, "window(9) | sink(2)");
    const auto texts = [&](const std::vector<std::int64_t>& lengths) {
      played.begin(lengths);
      for (int step = 0; step < 3; ++step) played.go_on(31 * step);
    };
    const int recordings = stream_counts().recordings, launches = stream_counts().launches;
    texts({17, 1, 40});
    EXPECT_EQ(stream_counts().recordings, recordings + 1);  // of steps
    EXPECT_EQ(stream_counts().launches, launches + 1);
    texts({5, 44, 9});
    EXPECT_EQ(stream_counts().recordings, recordings + 2);
    EXPECT_EQ(stream_counts().launches, launches + 4);
    texts({1, 1, 57}), texts({60, 3, 1});
    EXPECT_EQ(stream_counts().recordings, recordings + 2);
    EXPECT_EQ(stream_counts().launches, launches + 12);
    for (const std::vector<std::int64_t>& lengths : {std::vector<std::int64_t>{30, 3, 9}, {9, 3, 30}}) {
      played.begin(lengths);  // the keys of rows beyond are behind the first text's
      played.drop(0);
      for (int step = 0; step < 3; ++step) played.go_on(31 * step);
    }
  }
}

// Whose keys would have no place, or which take the device longer than the host.
TEST(Generation, RoundsNoPromptUpInVain) {
  Played played("llama");
  for (int call = 0; call < 3; ++call) {
    const std::size_t before = stream_counts().bytes_in;
    played.begin({60, 20}, 60);
    EXPECT_EQ(stream_counts().bytes_in, before + 4 * (4 * 80 + 2));
  }
  const std::size_t before = stream_counts().bytes_in;
  played.begin({59, 20}, 60);
  EXPECT_EQ(stream_counts().bytes_in, before + 4 * (4 * 80 + 3 * 2));
  EXPECT_TRUE(played.program.runs_sooner_than_launched(1 << 20));
  EXPECT_FALSE(played.program.runs_sooner_than_launched(std::int64_t{1} << 32));
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

// Of more than 20 tokens, each in another step, and the last of them in the place of one that is gone.
TEST(Generation, FindsTheLikeliestTokensOfTextsThatBecomeLong) {
  Played played("phi4");
  played.begin({17, 1, 20, 12, 19}, 96, Asked::likeliest);
  for (int step = 0; step < 3; ++step) played.go_on(31 * step);
  played.drop(1);
  played.drop(0);
  for (int step = 0; step < 7; ++step) played.go_on(17 * step);
}

TEST(Generation, IsNearThemInBf16) {
  for (const char* family : {"llama", "mistral", "qwen2", "qwen3", "phi3", "phi4", "gemma2", "gemma3", "gpt2"}) {
    SCOPED_TRACE(family);
    GoingOn texts(family, "window(6) | sink(2)", recording_device(), DType::bf16, 8e-2);
    texts.begin({17, 1, 40, 5});
    for (int step = 0; step < 4; ++step) texts.go_on(31 * step);
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

// Of 128 keys that steps are planned for, texts have room for 80.
TEST(Generation, GoesOnWithLessRoomThanPlanned) {
  for (const char* mask : {"all", "window(6) | sink(2)", "dilated(9,2)", "documents([0,5,30,150])"}) {
    SCOPED_TRACE(mask);
    Played played("llama", mask);
    played.begin({70, 9, 75}, 80);
    for (int step = 0; step < 5; ++step) played.go_on(31 * step);
  }
}

// Planned for the longest text there may be, whatever a step has.
TEST(Generation, HoldsArraysOverPositions) {
  Played played("llama", "documents([0,5,30,150])");
  played.begin({33, 1, 12});
  for (int step = 0; step < 8; ++step) played.go_on(11 * step);
  played.drop(0);
  for (int step = 0; step < 4; ++step) played.go_on(5 * step);
  const StepPlans& few = played.program.step_plans(4, 64);
  const std::int64_t plans = played.program.plans_made();
  ASSERT_EQ(few.attention.size(), 1U);
  EXPECT_EQ(played.program.step_plans(4, 128).attention, few.attention);
  EXPECT_EQ(played.program.plans_made(), plans);
}

TEST(Generation, GoesOnWithoutMemoryForRecordings) {
  Played played("qwen3", "window(6) | sink(2)");
  played.begin({12, 20});
  recordings_fit() = false;
  for (int step = 0; step < 4; ++step) played.go_on(7 * step);
  recordings_fit() = true;
}

TEST(Generation, GoesOnWhereRecordingsFail) {
  Played played("qwen3", "window(6) | sink(2)");
  played.begin({12, 20});
  const int recordings = stream_counts().recordings;
  recordings_work() = false;
  for (int step = 0; step < 4; ++step) played.go_on(7 * step);
  recordings_work() = true;
  for (int step = 0; step < 2; ++step) played.go_on(7 * step);  // is not tried again
  EXPECT_EQ(stream_counts().recordings, recordings);
}

TEST(Generation, SaysWhatKeysNeedWhereThereIsNoMemory) {
  const Played played("llama");
  most_device_bytes() = 1000;
  EXPECT_ERROR(
      Generation(GenerationPrograms(played.program), *played.lane, 3, 96), ErrorKind::device,
      "out of memory: 221184 bytes wanted; keys and values of 3 texts of 96 tokens need 221184 bytes: run fewer "
      "texts together, or fewer tokens");
  most_device_bytes() = SIZE_MAX;
}

// Prompts are run whole: 64 of 32,768 tokens are two million rows.
TEST(Generation, SaysWhatPromptsNeedWhereThereIsNoMemory) {
  Played played("llama");
  Generation generation(GenerationPrograms(played.program), *played.lane, 3, 96);
  const RowBatch prompts =
      make_rows(random_prompts({90, 90, 20}, 1), {.vocabulary = kTokens, .longest = kLongest}, false);
  const std::int64_t bytes = played.program.arena_bytes(208, 3);
  most_device_bytes() = static_cast<std::size_t>(bytes) - 1;
  EXPECT_ERROR(
      generation.begin(prompts), ErrorKind::device,
      fmt::format("out of memory: {0} bytes wanted; activations of 208 rows, rounded up, of 3 texts need {0} bytes: "
                  "run fewer texts together, or shorter ones",
                  bytes));
  most_device_bytes() = SIZE_MAX;
}

TEST(Generation, NeedsKeysThatCanBeKept) {
  const Model model = small_bert();
  Graph detached = build_bert(model);
  infer(detached);
  const Program program(detached, {.device = open_device("cpu"), .longest = 96});
  const std::string device = program.options().device.caps.name;
  GenerationLanes lanes(program.options().device);
  EXPECT_ERROR(Generation(GenerationPrograms(program), *lanes.take(), 1, 8), ErrorKind::unsupported,
               "keys cannot be kept for this model on " + device + "; accepted: a decoder");
}

}  // namespace
}  // namespace stof
