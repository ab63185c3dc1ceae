// SPDX-License-Identifier: Apache-2.0
// Texts that go on on a GPU, as they do on the CPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/runtime/cuda_session.h"
#include "tests/runtime/going_on.h"
#include "tests/runtime/small_decoder.h"

namespace stof {
namespace {

// By the likeliest token in f32, where the highest score is well above the others; recorded steps of fewer and fewer
// texts, which later calls find; and where all scores come to the host.
TEST_F(CudaSession, GoesOnAsTheCpuDoes) {
  const std::vector<std::string> texts{"a", "the mask decides who may attend", "rows, keys and blocks: 1, 2, 3",
                                       "x y z"};
  for (const char* family :
       {"gpt2", "llama", "llama_with_biases", "mistral", "qwen2", "qwen3", "phi3", "phi4", "gemma2", "gemma3"})
    for (const char* mask : {"all", "window(6) | sink(2)"}) {
      SCOPED_TRACE(std::string(family) + " " + mask);
      const Session cpu = Session::load(families() / family, {.device = "cpu", .mask = parse(mask), .logits = true});
      const auto whole = cpu.generate(texts, {.tokens = 40, .ends = std::vector<std::int32_t>{}});
      const std::vector<std::int32_t> ends{whole[0][5], whole[1][11], whole[2][20]};
      const auto want = cpu.generate(texts, {.tokens = 40, .ends = ends});
      for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
        const Session gpu =
            Session::load(families() / family, {.device = "cuda", .dtype = dtype, .mask = parse(mask), .logits = true});
        const auto first = gpu.generate(texts, {.tokens = 40, .ends = ends});
        for (int repeat = 0; repeat < 2; ++repeat) {
          const auto got = gpu.generate(texts, {.tokens = 40, .ends = ends});
          ASSERT_EQ(got.size(), texts.size());
          for (std::size_t text = 0; text < texts.size(); ++text) {
            // In 16 bits rounding makes other texts (their scores: below), and the same ones each time.
            EXPECT_EQ(got[text], dtype == DType::f32 ? want[text] : first[text]) << name_of(dtype) << ", text " << text;
          }
        }
        const std::int64_t held = gpu.statistics().held_bytes;
        const std::vector<std::string> longer(6, texts[2] + texts[1] + texts[2]);
        const GenerateOptions by_chance{.tokens = 40, .temperature = 1, .top_k = 1, .ends = ends};
        if (dtype == DType::f32) {
          EXPECT_EQ(gpu.generate(texts, by_chance), want);
          EXPECT_EQ(gpu.statistics().held_bytes, held);
          EXPECT_EQ(gpu.generate(longer, {.tokens = 12}), cpu.generate(longer, {.tokens = 12}));
          EXPECT_GT(gpu.statistics().held_bytes, held);
          EXPECT_EQ(gpu.generate(texts, {.tokens = 40, .ends = ends}), want);
        }
      }
    }
}

// Scores of each step, of one text and of several, done at once, recorded and replayed: keys and values that rotations
// or copies have put into the cache, and lengths that have grown since the step was recorded.
TEST_F(CudaSession, HasTheScoresOfTheWholeTextAtEachStep) {
  const Device device = open_device("cuda");
  const std::vector<std::pair<DType, double>> bounds{{DType::f32, 1e-4}, {DType::f16, 1e-2}, {DType::bf16, 8e-2}};
  for (const char* family : {"gpt2", "llama", "mistral", "qwen2", "qwen3", "phi3", "phi4", "gemma2", "gemma3"})
    for (const char* mask : {"all", "window(6) | sink(2)", "documents([0,5,30,150])"})
      for (const auto& [dtype, bound] : bounds)
        for (const std::vector<std::int64_t>& lengths : {std::vector<std::int64_t>{19}, {17, 1, 58, 5}}) {
          SCOPED_TRACE(fmt::format("{} {} {} {}", family, mask, name_of(dtype), lengths.size()));
          GoingOn texts(family, mask, device, dtype, bound);
          texts.begin(lengths);
          for (int step = 0; step < 12; ++step) texts.go_on(31 * step);  // past the 64 keys that are planned for first
          if (lengths.size() == 1) continue;
          texts.drop(1);
          for (int step = 0; step < 4; ++step) texts.go_on(17 * step);
        }
}

// Heads that all of a step's attention is one launch for, with and without norms, and their texts past what was planned
// for first; masks that a rule says, and one that none does.
TEST_F(CudaSession, GoesOnWithAllOfAttentionInOneLaunch) {
  const Device device = open_device("cuda");
  const std::vector<DecoderHeads> heads{{4, 2, 64, false}, {8, 1, 64, true}, {2, 2, 128, true}, {6, 2, 128, false}};
  for (const DecoderHeads& of : heads)
    for (const char* mask : {"all", "window(6) | sink(2)", "dilated(9,2)"})
      for (const auto& [dtype, bound] : {std::pair{DType::f16, 1e-2}, std::pair{DType::bf16, 8e-2}})
        for (const std::vector<std::int64_t>& lengths : {std::vector<std::int64_t>{19}, {17, 1, 58, 5}}) {
          SCOPED_TRACE(fmt::format("{}:{} heads of {} {} {} {}", of.heads, of.kv_heads, of.head_dim, mask,
                                   name_of(dtype), lengths.size()));
          GoingOn texts(small_decoder(of), mask, device, dtype, bound);
          texts.begin(lengths);
          for (int step = 0; step < 12; ++step) texts.go_on(31 * step);
          const auto& joined = texts.programs.of_few_rows().step_plans(std::ssize(lengths), 64).joined;
          ASSERT_EQ(joined.size(), 1u);
          EXPECT_EQ(joined[0].has_value(), std::string(mask) != "dilated(9,2)" && device.caps.arch >= 80);
          if (lengths.size() == 1) continue;
          texts.drop(1);
          for (int step = 0; step < 4; ++step) texts.go_on(17 * step);
        }
}

// Of 128 keys that steps are planned for, texts have room for 80.
TEST_F(CudaSession, GoesOnWithLessRoomThanPlanned) {
  for (const char* mask : {"all", "window(6) | sink(2)", "dilated(9,2)", "documents([0,5,30,150])"})
    for (const auto& [dtype, bound] : {std::pair{DType::f32, 1e-4}, std::pair{DType::f16, 1e-2}}) {
      SCOPED_TRACE(fmt::format("{} {}", mask, name_of(dtype)));
      GoingOn texts(small_decoder({4, 2, 64, false}), mask, open_device("cuda"), dtype, bound);
      texts.begin({70, 9, 75}, 80);
      for (int step = 0; step < 5; ++step) texts.go_on(31 * step);
    }
}

// Prompts that are rounded up to one size: done at once, recorded, and launched again for other texts.
TEST_F(CudaSession, RecordsPromptsOfOneSize) {
  for (const auto& model : {read_model(families() / "llama"), read_model(families() / "gpt2"),
                            small_decoder({4, 2, 64, false}), small_decoder({2, 2, 128, true})})
    for (const char* mask : {"all", "window(6) | sink(2)"})
      for (const auto& [dtype, bound] :
           {std::pair{DType::f32, 1e-4}, std::pair{DType::f16, 1e-2}, std::pair{DType::bf16, 8e-2}}) {
        SCOPED_TRACE(fmt::format("{} {} {}", model.config.architecture, mask, name_of(dtype)));
        GoingOn texts(model, mask, open_device("cuda"), dtype, bound);
        for (const std::vector<std::int64_t>& lengths :
             {std::vector<std::int64_t>{17, 1, 40}, {5, 44, 9}, {1, 1, 57}, {60, 3, 1}}) {
          texts.begin(lengths);
          for (int step = 0; step < 3; ++step) texts.go_on(31 * step);
        }
      }
}

// More texts than the program of few rows takes, and then as many and fewer: keys that one program kept serve the
// other.
TEST_F(CudaSession, GoesOnAcrossPrograms) {
  for (const auto& model :
       {read_model(families() / "qwen3"), read_model(families() / "gpt2"), small_decoder({6, 2, 128, true})}) {
    SCOPED_TRACE(model.config.architecture);
    GoingOn texts(model, "all", open_device("cuda"), DType::f16, 1e-2);
    EXPECT_EQ(texts.programs.of_few_rows().most_rows(), 16);
    std::vector<std::int64_t> lengths;
    for (std::int64_t text = 0; text < 19; ++text) lengths.push_back(1 + text * 7 % 23);
    texts.begin(lengths);
    for (int step = 0; step < 3; ++step) texts.go_on(31 * step);
    while (texts.generation->texts() > 7) {
      texts.drop(static_cast<std::size_t>(texts.generation->texts() / 3));
      for (int step = 0; step < 2; ++step) texts.go_on(17 * step);
    }
  }
}

}  // namespace
}  // namespace stof
