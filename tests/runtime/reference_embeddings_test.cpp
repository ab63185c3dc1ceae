// SPDX-License-Identifier: Apache-2.0
// The vectors of a real checkpoint on real sentences, against those of another program (tools/make_reference.py):
// however the sentences are batched, padded, masked by nothing, and shared among threads.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "src/tensor/convert.h"
#include "src/tensor/npy.h"
#include "stof/session.h"
#include "tests/model/checkpoint.h"
#include "tests/worst.h"

namespace stof {
namespace {

// Under sanitizers, which make each take a hundred times as long, a part of the sentences.
#ifdef STOF_SANITIZED
constexpr std::int64_t kEvery = 8;
#else
constexpr std::int64_t kEvery = 1;
#endif
constexpr std::int64_t kFewestSentences = 200 / kEvery;
constexpr double kBound = 2e-5;         // of a component; vectors have length 1
constexpr double kCosineBf16 = 0.9998;  // of the worst sentence

std::vector<std::string> sentences() {
  std::ifstream file(std::filesystem::path(STOF_SOURCE_DIR) / "data/sentences.txt");
  std::vector<std::string> lines;
  std::int64_t number = 0;
  for (std::string line; std::getline(file, line); ++number)
    if (number % kEvery == 0) lines.push_back(line);
  return lines;
}

Tensor reference() {
  const Tensor all = read_npy(std::filesystem::path(STOF_SOURCE_DIR) / "tests/data/minilm_embeddings.npy");
  TensorView some = all.view();
  some.shape[0] = (some.shape[0] + kEvery - 1) / kEvery;
  some.strides[0] *= kEvery;
  return converted(some, DType::f32);
}

struct Case {
  std::string name;
  SessionOptions session;
  std::int64_t batch;
};

std::vector<Case> cases() {
  return {
      {"batch_32", {.device = "cpu"}, 32},
      {"one_at_a_time", {.device = "cpu", .threads = 1}, 1},
      {"batch_7_one_thread", {.device = "cpu", .threads = 1}, 7},
      {"batch_8_two_threads", {.device = "cpu", .threads = 2}, 8},
      {"all_in_one_batch_three_threads", {.device = "cpu", .threads = 3}, 1000},
      {"padded", {.device = "cpu", .threads = 2, .padded = true}, 32},
      {"mask_all", {.device = "cpu", .mask = parse("all"), .threads = 2}, 32},
      {"mask_all_padded", {.device = "cpu", .mask = parse("all"), .threads = 1, .padded = true}, 8},
      {"window_wider_than_any_sentence", {.device = "cpu", .mask = parse("window(512)"), .threads = 2}, 32},
  };
}

class ReferenceEmbeddings : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Cases, ReferenceEmbeddings, testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

TEST_P(ReferenceEmbeddings, AreReachedWithinTheBound) {
  const std::vector<std::string> texts = sentences();
  ASSERT_GE(std::ssize(texts), kFewestSentences);
  const Session session = Session::load(checkpoint(), GetParam().session);
  const Embeddings got = session.embed(texts, {.batch = GetParam().batch});
  const Tensor want = reference();
  ASSERT_EQ(want.shape(), (Shape{std::ssize(texts), session.hidden_size()}));
  ASSERT_EQ(got.values.shape(), want.shape());
  EXPECT_EQ(got.truncated, 0);
  double worst = 0;
  for (std::int64_t i = 0; i < want.size(); ++i) {
    const double difference = std::abs(double{got.values.as<float>()[i]} - want.as<float>()[i]);
    ASSERT_FALSE(std::isnan(difference)) << "component " << i;
    keep_worst(worst, difference);
  }
  EXPECT_LE(worst, kBound);
  RecordProperty("largest_difference", testing::PrintToString(worst));
}

TEST(RealCheckpoint, ANarrowerMaskIsSeen) {
  const std::vector<std::string> texts = sentences();
  const Session session = Session::load(checkpoint(), {.device = "cpu", .mask = parse("window(2)")});
  const Embeddings got = session.embed(texts, {});
  const Tensor want = reference();
  double worst = 0;
  for (std::int64_t i = 0; i < want.size(); ++i)
    keep_worst(worst, std::abs(double{got.values.as<float>()[i]} - want.as<float>()[i]));
  EXPECT_GT(worst, 0.05);
}

TEST(RealCheckpoint, Bf16KeepsTheDirection) {
  const Session session = Session::load(checkpoint(), {.device = "cpu", .dtype = DType::bf16});
  const Embeddings got = session.embed(sentences(), {});
  const Tensor want = reference();
  const std::int64_t columns = want.shape()[1];
  double worst = 1;
  for (std::int64_t row = 0; row < want.shape()[0]; ++row) {
    double dot = 0;  // of vectors of length 1
    for (std::int64_t c = row * columns; c < (row + 1) * columns; ++c)
      dot += double{got.values.as<float>()[c]} * want.as<float>()[c];
    worst = std::min(worst, dot);
  }
  EXPECT_GE(worst, kCosineBf16);
  EXPECT_LT(worst, 1 - 1e-7);  // bf16 was used
  RecordProperty("smallest_cosine", testing::PrintToString(worst));
}

}  // namespace
}  // namespace stof
