// SPDX-License-Identifier: Apache-2.0
// What new lengths cost a session: no planning, and exactly the memory that the plan says. What they leave alone: the
// bits of a text, which are the same in a ragged batch and alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "src/fusion/fuse.h"
#include "src/graph/build.h"
#include "src/runtime/program.h"
#include "tests/expect_error.h"
#include "tests/runtime/small_bert.h"

namespace stof {
namespace {

constexpr std::int64_t kLongest = 96;

std::vector<std::vector<std::int64_t>> ragged_batches() {
  return {{96}, {1}, {7, 1, 96, 33, 64, 2, 50}, {95, 94, 93}, {16, 16, 16, 16}, {5, 80}, {3, 3, 3, 3, 3, 3, 3, 3, 3}};
}

Session session_of(const std::string& mask, int threads = 0) {
  return Session(small_bert(), {.device = "cpu", .mask = parse(mask), .threads = threads});
}

TEST(NewLengths, CostNoPlanning) {
  for (const char* mask : {"all", "causal", "longformer(32,4)", "window(5) | global([0,17])",
                           "heads(0: causal, *: window(5))", "dilated(4,3)", "where(q % 3 == k % 3)"}) {
    const Session session = session_of(mask);
    EXPECT_EQ(session.statistics().plans, 1) << mask;
    for (const auto& lengths : ragged_batches()) session.run(texts_of(lengths));
    EXPECT_EQ(session.statistics().plans, 1) << mask;
    EXPECT_EQ(session.statistics().calls, std::ssize(ragged_batches()));
  }
}

TEST(NewLengths, ArePlannedOnceWhereTheMaskDependsOnThem) {
  const Session session = session_of("bigbird(16,3,2,1,5)");
  const std::int64_t at_load = session.statistics().plans;
  session.run(texts_of({96}));
  EXPECT_EQ(session.statistics().plans, at_load);  // planned for the longest text
  session.run(texts_of({40, 41, 40}));
  EXPECT_EQ(session.statistics().plans, at_load + 2);
  session.run(texts_of({41, 40}));
  EXPECT_EQ(session.statistics().plans, at_load + 2);
}

TEST(NewLengths, MemoryIsToldForWhatACallCanHave) {
  const Session session = session_of("all");
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  EXPECT_GT(session.memory_for(kMost).bytes, session.memory_for(kMost / 2).bytes);
  for (const std::int64_t tokens : {std::int64_t{-1}, kMost + 1, std::numeric_limits<std::int64_t>::max()})
    EXPECT_ERROR(session.memory_for(tokens), ErrorKind::invalid_argument,
                 fmt::format("memory for {} tokens; accepted: 0..2147483647", tokens));
}

TEST(NewLengths, HoldTheMemoryThatThePlanSays) {
  const Session session = session_of("all");
  EXPECT_EQ(session.statistics().held_bytes, 0);
  std::int64_t most = 0;
  for (const auto& lengths : ragged_batches()) {
    const TokenBatch batch = texts_of(lengths);
    session.run(batch);
    most = std::max(most, session.memory_for(std::ssize(batch.ids)).bytes);
    EXPECT_EQ(session.statistics().planned_bytes, most);
    EXPECT_EQ(session.statistics().held_bytes, most);
  }
}

TEST(NewLengths, HoldWhatTokensThatAreWantedNeed) {
  const Session session = session_of("all");
  for (const Pooling pooling : {Pooling::last, Pooling::cls, Pooling::mean})
    for (const auto& lengths : ragged_batches()) {
      session.embed(texts_of(lengths), pooling);
      EXPECT_EQ(session.statistics().held_bytes, session.statistics().planned_bytes);
    }
  const std::filesystem::path decoder = std::filesystem::path(STOF_SOURCE_DIR) / "tests/data/families/gpt2";
  const Session scores = Session::load(decoder, {.device = "cpu", .logits = true});
  scores.embed(texts_of({96, 50}), Pooling::last);
  EXPECT_LT(4 * scores.statistics().held_bytes, scores.memory_for(146).bytes);
  EXPECT_EQ(scores.statistics().held_bytes, scores.statistics().planned_bytes);
  scores.run(texts_of({96, 50}));
  EXPECT_EQ(scores.statistics().held_bytes, scores.memory_for(146).bytes);
}

// The plan is a peak: its last byte is written, and none after it.
TEST(NewLengths, WriteThePlannedMemoryToItsLastByte) {
  const Model model = small_bert();
  const Program program(fused_by_default(build_bert(model)), {.device = open_device("cpu"), .longest = kLongest});
  const TokenBatch batch = texts_of({16, 16, 16, 16});  // as many rows as a matmul wants: none is rounded up
  const RowBatch rows = make_rows(batch, {.vocabulary = 50, .longest = kLongest}, false);
  const std::int64_t planned = program.arena_bytes(rows.rows), guard = 4096;
  const Tensor memory(DType::boolean, {planned + guard});
  std::vector<bool> written(memory.bytes(), false);
  for (const int pattern : {0x00, 0xA5}) {  // a byte that happens to equal one pattern differs from the other
    std::memset(memory.data(), pattern, memory.bytes());
    program.run(rows, memory.as<std::byte>());
    for (std::size_t i = 0; i < written.size(); ++i)
      if (memory.as<std::uint8_t>()[i] != pattern) written[i] = true;
  }
  const auto last = std::find(written.rbegin(), written.rend(), true);
  EXPECT_EQ(written.rend() - last, planned);
}

class Alone : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Masks, Alone,
                         testing::Values("all", "longformer(32,4)", "causal & window(9)", "global([2,50]) | window(3)",
                                         "documents([0,10,40])",
                                         "segments([[0,20,0,20,\"full\"],[20,96,4,96,\"causal\"]])",
                                         "bigbird(16,3,2,1,5)", "prefix(6)", "heads(0: sink(3), *: strided(4))"));

std::vector<float> rows_of(const Tensor& hidden, std::int64_t first, std::int64_t count) {
  const float* begin = hidden.as<float>() + first * hidden.shape()[1];
  return {begin, begin + count * hidden.shape()[1]};
}

void expect_near(const std::vector<float>& got, const std::vector<float>& want, double bound) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], bound) << "element " << i;
}

TEST_P(Alone, ATextOfARaggedBatchEqualsItselfAlone) {
  const std::vector<std::int64_t> lengths{96, 7, 1, 33, 64, 2, 50};
  const TokenBatch batch = texts_of(lengths);
  const Session session = session_of(GetParam());
  // Bit for bit, where matmuls have the same bits for any number of rows (tests/backend/thread_bits_test.cpp).
  const bool exact = session.device().caps.name.find("AVX-512") != std::string::npos;
  const Tensor together = session.run(batch);
  for (std::size_t text = 0; text < lengths.size(); ++text) {
    SCOPED_TRACE(testing::Message() << "text " << text);
    TokenBatch alone;
    alone.add(std::span(batch.ids).subspan(static_cast<std::size_t>(batch.offsets[text]),
                                           static_cast<std::size_t>(lengths[text])));
    expect_near(rows_of(together, batch.offsets[text], lengths[text]), rows_of(session.run(alone), 0, lengths[text]),
                exact ? 0 : 2e-6);
  }
}

// Not always the same bits: attention is planned for the threads, and another tile adds in another order.
TEST_P(Alone, AnyNumberOfThreadsGivesTheSameValues) {
  const TokenBatch batch = texts_of({96, 7, 1, 33, 64, 2, 50});
  const Tensor one = session_of(GetParam(), 1).run(batch);
  for (const int threads : {2, 3, 7}) {
    SCOPED_TRACE(testing::Message() << threads << " threads");
    expect_near(rows_of(session_of(GetParam(), threads).run(batch), 0, one.shape()[0]), rows_of(one, 0, one.shape()[0]),
                5e-6);
  }
}

TEST(NewLengths, AreRefusedWhereAnArrayHasOneLength) {
  const Tensor allowed(DType::boolean, {96, 96});
  std::memset(allowed.data(), 1, allowed.bytes());
  const Session session(small_bert(), {.device = "cpu", .mask = stof::bits(allowed.view())});
  session.run(texts_of({96}));
  EXPECT_ERROR(
      session.run(texts_of({40})), ErrorKind::invalid_argument,
      "bits: the array is [96, 96]; accepted: [40, 40], [3, 40, 40] or [1, 3, 40, 40], where 1 fits every size");
  EXPECT_ERROR(session_of("natten(8,12,3,3)").run(texts_of({96, 40})), ErrorKind::invalid_argument,
               "natten: 40 queries and 40 keys; accepted: 8 x 12 = 96 of both");
  EXPECT_ERROR(session_of("natten(8,8,3,3)"), ErrorKind::invalid_argument,
               "natten: 96 queries and 96 keys; accepted: 8 x 8 = 64 of both");
}

}  // namespace
}  // namespace stof
