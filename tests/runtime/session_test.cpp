// SPDX-License-Identifier: Apache-2.0
#include "stof/session.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "tests/expect_error.h"
#include "tests/runtime/small_bert.h"
#include "tests/worst.h"

namespace stof {
namespace {

std::vector<std::int32_t> ids_of(std::int64_t length, std::uint64_t seed) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < length; ++i)
    ids.push_back(static_cast<std::int32_t>(splitmix64(seed * 1000 + static_cast<std::uint64_t>(i)) % 50));
  return ids;
}

const std::vector<std::int64_t> kLengths = {7, 1, 96, 33, 64, 2, 50};

TokenBatch ragged() {
  TokenBatch batch;
  for (std::size_t i = 0; i < kLengths.size(); ++i) batch.add(ids_of(kLengths[i], i));
  return batch;
}

void expect_near(const float* got, const Rows& want, double bound) {
  for (std::size_t r = 0; r < want.size(); ++r)
    for (std::size_t c = 0; c < want[r].size(); ++c)
      ASSERT_NEAR(got[r * want[r].size() + c], want[r][c], bound) << "row " << r << " column " << c;
}

struct Case {
  std::string mask, activation;
  bool padded;
};
class AgainstDefinition : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Masks, AgainstDefinition,
                         testing::Values(Case{"all", "gelu", false}, Case{"all", "gelu", true},
                                         Case{"causal", "gelu_new", false}, Case{"longformer(32,4)", "relu", false},
                                         Case{"longformer(32,4)", "gelu", true}, Case{"window(3)", "gelu", false},
                                         Case{"heads(0: causal, *: window(5))", "gelu", false},
                                         Case{"bigbird(16,3,2,1,5)", "gelu", false},
                                         Case{"dilated(4,3) & causal", "gelu", true}));

TEST_P(AgainstDefinition, EveryTextOfARaggedBatchEqualsItself) {
  const Model model = small_bert(2, GetParam().activation);
  const Mask mask = parse(GetParam().mask);
  const Session session(model, {.device = "cpu", .mask = mask, .padded = GetParam().padded});
  const TokenBatch batch = ragged();
  const Tensor hidden = session.run(batch);
  ASSERT_EQ(hidden.shape(), (Shape{std::ssize(batch.ids), 24}));
  for (std::size_t i = 0; i < kLengths.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "text " << i);
    expect_near(hidden.as<float>() + batch.offsets[i] * 24, NaiveBert(model, mask).run(ids_of(kLengths[i], i)), 2e-5);
  }
}

TEST(Session, PoolsAsAsked) {
  const Model model = small_bert();
  const Session session(model, {.device = "cpu"});
  const TokenBatch batch = ragged();
  const Tensor hidden = session.run(batch);
  for (const Pooling pooling : {Pooling::cls, Pooling::mean, Pooling::max}) {
    const Tensor pooled = session.embed(batch, pooling);
    for (std::size_t text = 0; text < kLengths.size(); ++text) {
      std::vector<double> want;
      double squares = 0;
      for (std::int64_t c = 0; c < 24; ++c) {
        double value = hidden.as<float>()[batch.offsets[text] * 24 + c];
        for (std::int64_t r = batch.offsets[text] + 1; r < batch.offsets[text + 1] && pooling != Pooling::cls; ++r) {
          const double next = hidden.as<float>()[r * 24 + c];
          value = pooling == Pooling::mean ? value + next : std::max(value, next);
        }
        want.push_back(pooling == Pooling::mean ? value / static_cast<double>(kLengths[text]) : value);
        squares += want.back() * want.back();
      }
      for (std::int64_t c = 0; c < 24; ++c)
        ASSERT_NEAR(pooled.as<float>()[static_cast<std::int64_t>(text) * 24 + c],
                    want[static_cast<std::size_t>(c)] / std::sqrt(squares), 2e-6);
    }
  }
}

TEST(Session, EmbedsTokenListsInTheirOrder) {
  const Session session(small_bert(), {.device = "cpu"});
  std::vector<std::vector<std::int32_t>> texts;
  for (std::size_t i = 0; i < kLengths.size(); ++i) texts.push_back(ids_of(kLengths[i], i));
  for (const Pooling pooling : {Pooling::none, Pooling::mean}) {
    const Tensor want = session.embed(ragged(), pooling);
    for (const std::int64_t batch : {1, 3, 32}) {
      std::vector<std::int64_t> done;
      const Embeddings got = session.embed(
          texts,
          {.pooling = pooling, .batch = batch, .progress = [&](std::int64_t so_far) { done.push_back(so_far); }});
      ASSERT_EQ(got.values.shape(), want.shape());
      for (std::int64_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(got.values.as<float>()[i], want.as<float>()[i], 2e-6) << "batches of " << batch << ", " << i;
      EXPECT_EQ(got.lengths, std::vector<std::int32_t>(kLengths.begin(), kLengths.end()));
      EXPECT_EQ(got.truncated, 0);
      EXPECT_EQ(std::ssize(done), (7 + batch - 1) / batch);
      EXPECT_EQ(done.back(), 7);
    }
  }
  texts[3].clear();
  EXPECT_ERROR(session.embed(texts), ErrorKind::invalid_argument, "text 3 has 0 tokens; accepted: 1 to 96");
  texts[3] = {1, 2, 50};
  EXPECT_ERROR(session.embed(texts), ErrorKind::invalid_argument, "text 3: its token 2 has id 50; accepted: 0 to 49");
  EXPECT_ERROR(session.embed(texts, {.batch = 0}), ErrorKind::invalid_argument, "batch = 0; accepted: 1 or more");
  EXPECT_EQ(session.vocabulary(), 50);
  EXPECT_EQ(session.positions(), 96);
}

TEST(Session, OfNoTextsGivesNoRows) {
  for (const bool padded : {false, true}) {
    const Session session(small_bert(), {.device = "cpu", .padded = padded});
    EXPECT_EQ(session.run({}).shape(), (Shape{0, 24}));
    for (const Pooling pooling : {Pooling::none, Pooling::cls, Pooling::mean, Pooling::max})
      EXPECT_EQ(session.embed(TokenBatch{}, pooling).shape(), (Shape{0, 24}));
  }
}

TEST(Session, Bf16StaysNearF32) {
  const Model model = small_bert();
  const TokenBatch batch = ragged();
  const Tensor exact = Session(model, {.device = "cpu"}).embed(batch, Pooling::mean);
  const Tensor rounded = Session(model, {.device = "cpu", .dtype = DType::bf16}).embed(batch, Pooling::mean);
  double worst = 0;
  for (std::int64_t i = 0; i < exact.size(); ++i)
    keep_worst(worst, std::abs(double{exact.as<float>()[i]} - rounded.as<float>()[i]));
  EXPECT_LT(worst, 3e-2);
  EXPECT_GT(worst, 0);
}

TEST(Session, RunsFromSeveralThreadsAtOnce) {
  const Session session(small_bert(), {.device = "cpu", .threads = 1});
  const TokenBatch batch = ragged();
  const Tensor want = session.run(batch);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (std::size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      for (int run = 0; run < 5; ++run) {
        const Tensor got = session.run(batch);
        wrong[t] += std::memcmp(got.data(), want.data(), want.bytes()) != 0;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

// In a process of its own: a pool of threads that another test woke would be counted.
TEST(SessionDeathTest, TakesNoMoreThreadsThanAskedFor) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto embed_and_count = [] {
    const Session session(small_bert(), {.device = "cpu", .threads = 1});
    for (const Pooling pooling : {Pooling::cls, Pooling::mean, Pooling::none}) session.embed(ragged(), pooling);
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    std::exit(std::distance(begin(tasks), end(tasks)) == 1 ? 0 : 1);
  };
  EXPECT_EXIT(embed_and_count(), testing::ExitedWithCode(0), "");
}

TEST(Session, RefusesBadInputByName) {
  const Session session(small_bert(), {.device = "cpu"});
  const auto run = [&](std::vector<std::int32_t> ids, std::vector<std::int32_t> offsets) {
    session.run({.ids = std::move(ids), .offsets = std::move(offsets)});
  };
  EXPECT_ERROR(run({1, 50}, {0, 2}), ErrorKind::invalid_argument, "token 1 has id 50; accepted: 0 to 49");
  EXPECT_ERROR(run({1, -1}, {0, 2}), ErrorKind::invalid_argument, "token 1 has id -1; accepted: 0 to 49");
  EXPECT_ERROR(run({1, 2}, {0, 0, 2}), ErrorKind::invalid_argument, "text 0 has 0 tokens; accepted: 1 to 96");
  EXPECT_ERROR(run(std::vector<std::int32_t>(97, 1), {0, 97}), ErrorKind::invalid_argument,
               "text 0 has 97 tokens; accepted: 1 to 96");
  EXPECT_ERROR(run({1, 2}, {0, 1}), ErrorKind::invalid_argument,
               "offsets run from 0 to 1; accepted: from 0 to the number of ids, 2");
  const std::vector<std::string> texts{"a"};
  EXPECT_ERROR(session.embed(texts), ErrorKind::invalid_argument, "this session has no tokenizer: give it token ids");
  EXPECT_ERROR(
      Session(small_bert(), {.device = "cpu", .mask = parse("batch(0: causal, *: all)")}), ErrorKind::invalid_argument,
      "mask batch(0: causal, *: all): it depends on the batch index; accepted: masks that are the same for every text, "
      "since texts are regrouped");
  EXPECT_ERROR(Session(small_bert(), {.device = "cpu", .threads = 1025}), ErrorKind::invalid_argument,
               "threads = 1025; accepted: 0 (as many as OpenMP would take) to 1024");
  EXPECT_ERROR(Session(small_bert(), {.device = "cpu", .dtype = DType::f16}), ErrorKind::unsupported,
               "no matmul in f16 on the CPU; accepted: f32, bf16");
  EXPECT_ERROR(Session(small_bert(1, "swish"), {.device = "cpu"}), ErrorKind::unsupported,
               "activation 'swish'; accepted: gelu, gelu_new, relu, silu, tanh");
}

}  // namespace
}  // namespace stof
