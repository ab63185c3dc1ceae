// SPDX-License-Identifier: Apache-2.0
// Sessions from several threads: one that all of them use, and one that each of them loads from the same folder.
#include "stof/session.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/runtime/small_bert.h"
#include "tests/threads/at_once.h"

namespace stof {
namespace {

constexpr int kThreads = 4;

// Texts of lengths that differ from thread to thread and meet again.
TokenBatch batch_of(int t) {
  TokenBatch batch;
  for (const int length : {1 + t, 50, 96 - t / 2}) {
    std::vector<std::int32_t> ids;
    for (int i = 0; i < length; ++i) ids.push_back((7 * i + t) % 50);
    batch.add(ids);
  }
  return batch;
}

bool same(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

class SharedSession : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Masks, SharedSession, testing::Values("all", "bigbird(16,3,2,1,5)"));

TEST_P(SharedSession, RunsAtOnce) {
  const Session session(small_bert(), {.device = "cpu", .mask = parse(GetParam()), .threads = 1});
  std::vector<Tensor> want;
  {
    const Session alone(small_bert(), {.device = "cpu", .mask = parse(GetParam()), .threads = 1});
    for (int t = 0; t < kThreads; ++t) want.push_back(alone.run(batch_of(t)));
  }
  std::vector<int> wrong(kThreads, 0);
  at_once(kThreads, [&](int t) {
    const auto i = static_cast<std::size_t>(t);
    for (int run = 0; run < 5; ++run) {
      wrong[i] += same(session.run(batch_of(t)), want[i]) ? 0 : 1;
      wrong[i] += session.embed(batch_of(t), Pooling::mean).shape() == Shape{3, 24} ? 0 : 1;
      wrong[i] += session.statistics().calls > 0 ? 0 : 1;
    }
  });
  EXPECT_EQ(wrong, std::vector<int>(kThreads, 0));
  EXPECT_EQ(session.statistics().calls, kThreads * 10);
}

// Each goes on with texts of its own, beside scores of others.
TEST(Sessions, GoOnAtOnce) {
  const std::filesystem::path folder = std::filesystem::path(STOF_SOURCE_DIR) / "tests/data/families/qwen2";
  const SessionOptions options{.device = "cpu", .threads = 1, .logits = true};
  const GenerateOptions by_chance{.tokens = 6, .temperature = 1, .ends = std::vector<std::int32_t>{}};
  const auto prompts = [](int t) {
    return std::vector<std::string>{"The bread rises", std::string(static_cast<std::size_t>(1 + 3 * t), 'x')};
  };
  std::vector<std::vector<std::vector<std::int32_t>>> want;
  {
    const Session alone = Session::load(folder, options);
    for (int t = 0; t < kThreads; ++t) want.push_back(alone.generate(prompts(t), by_chance));
  }
  const Session session = Session::load(folder, options);
  std::vector<int> wrong(kThreads, 0);
  at_once(kThreads, [&](int t) {
    const auto i = static_cast<std::size_t>(t);
    for (int run = 0; run < 3; ++run) {
      wrong[i] += session.generate(prompts(t), by_chance) == want[i] ? 0 : 1;
      wrong[i] += session.embed(prompts(t)).values.shape() == Shape{2, 800} ? 0 : 1;
    }
  });
  EXPECT_EQ(wrong, std::vector<int>(kThreads, 0));
}

TEST(Sessions, LoadAndEmbedAtOnce) {
  const std::filesystem::path folder = std::filesystem::path(STOF_SOURCE_DIR) / "tests/data/families";
  const std::vector<std::string> texts{"The bread rises slowly.", "It's late; a storm is coming.", "x"};
  for (const char* family : {"roberta", "distilbert", "gpt2", "qwen3"}) {
    const SessionOptions options{.device = "cpu", .threads = 1};
    const Tensor want = Session::load(folder / family, options).embed(texts).values;
    std::vector<int> wrong(kThreads, 0);
    at_once(kThreads, [&](int t) {
      const Session session = Session::load(folder / family, options);
      wrong[static_cast<std::size_t>(t)] += same(session.embed(texts).values, want) ? 0 : 1;
    });
    EXPECT_EQ(wrong, std::vector<int>(kThreads, 0)) << family;
  }
}

}  // namespace
}  // namespace stof
