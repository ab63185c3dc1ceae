// SPDX-License-Identifier: Apache-2.0
// Dense layers behind the pooling, against sentence-transformers in fp32 (tools/make_dense_reference.py).
#include "src/runtime/dense_head.h"

#include <gtest/gtest.h>

#include <cmath>

#include "src/tensor/npy.h"
#include "stof/session.h"
#include "tests/backend/random_tensor.h"
#include "tests/expect_error.h"
#include "tests/runtime/changed_family.h"

namespace stof {
namespace {

const std::string kFamily = "gemma3_with_dense";

void expect_near(const Tensor& got, const Tensor& want, double bound) {
  ASSERT_EQ(got.shape(), want.shape());
  for (std::int64_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(got.as<float>()[i], want.as<float>()[i], bound) << "component " << i;
}

TEST(DenseHead, GivesTheVectorsOfSentenceTransformers) {
  const Tensor want = read_npy(family_folder(kFamily) / "embeddings.npy");
  const std::vector<std::string> texts = texts_of_family(kFamily);
  for (const bool padded : {false, true}) {
    const Session session = Session::load(family_folder(kFamily), {.device = "cpu", .padded = padded});
    EXPECT_EQ(session.hidden_size(), 32);
    EXPECT_EQ(session.columns(), 32);
    EXPECT_EQ(session.columns(Pooling::mean), 40);
    EXPECT_EQ(session.columns(Pooling::none), 32);
    for (const std::int64_t batch : {1, 5, 32}) expect_near(session.embed(texts, {.batch = batch}).values, want, 2e-6);
  }
  const Session bf16 = Session::load(family_folder(kFamily), {.device = "cpu", .dtype = DType::bf16});
  expect_near(bf16.embed(texts).values, want, 3e-2);
}

TEST(DenseHead, IsOfPooledVectorsAlone) {
  const Session session = Session::load(family_folder(kFamily), {.device = "cpu"});
  const Session plain =
      Session::load(ChangedFamily("gemma3", {{"use_bidirectional_attention", true}}).path(), {.device = "cpu"});
  const std::vector<std::string> texts = texts_of_family(kFamily);
  const EmbedOptions of_tokens{.pooling = Pooling::none};
  expect_near(session.embed(texts, of_tokens).values, plain.embed(texts, of_tokens).values, 0);
  EXPECT_EQ(session.embed(TokenBatch(), Pooling::mean).shape(), (Shape{0, 40}));
  EXPECT_EQ(session.embed(TokenBatch(), Pooling::none).shape(), (Shape{0, 32}));
  const Session scores = Session::load(family_folder(kFamily), {.device = "cpu", .logits = true});
  EXPECT_EQ(scores.columns(Pooling::last), 800);
  EXPECT_EQ(scores.embed(std::span(texts).first(1), {.pooling = Pooling::last}).values.shape(), (Shape{1, 800}));
}

// By every pooling, also without a norm behind: the last layer's tanh is then what comes out.
TEST(DenseHead, WithoutANormIsWhatTheLayersSay) {
  ChangedFamily folder(kFamily);
  nlohmann::json modules = nlohmann::json::parse(read_bytes(folder.file("modules.json")));
  modules.erase(4);
  folder.replace("modules.json", modules.dump());
  const Session session = Session::load(folder.path(), {.device = "cpu"});
  const Session plain =
      Session::load(ChangedFamily("gemma3", {{"use_bidirectional_attention", true}}).path(), {.device = "cpu"});
  const DenseLayer first = read_dense_layer(folder.file("2_Dense"), 32),
                   second = read_dense_layer(folder.file("3_Dense"), 48);
  const auto times = [](const DenseLayer& layer, const std::vector<double>& x) {
    std::vector<double> y;
    for (std::int64_t o = 0; o < layer.outputs(); ++o) {
      double sum = layer.bias ? double{static_cast<const float*>(layer.bias->data)[o]} : 0;
      for (std::int64_t i = 0; i < layer.inputs(); ++i)
        sum += x[static_cast<std::size_t>(i)] * static_cast<const float*>(layer.weight.data)[o * layer.inputs() + i];
      y.push_back(layer.activation == "tanh" ? std::tanh(sum) : sum);
    }
    return y;
  };
  const std::vector<std::string> texts = texts_of_family(kFamily);
  for (const Pooling pooling : {Pooling::cls, Pooling::mean, Pooling::max, Pooling::last}) {
    const Tensor got = session.embed(texts, {.pooling = pooling}).values,
                 pooled = plain.embed(texts, {.pooling = pooling}).values;
    for (std::int64_t text = 0; text < got.shape()[0]; ++text) {
      const float* const x = pooled.as<float>() + text * 32;
      const std::vector<double> want = times(second, times(first, {x, x + 32}));
      for (std::int64_t c = 0; c < 40; ++c)
        ASSERT_NEAR(got.as<float>()[text * 40 + c], want[static_cast<std::size_t>(c)], 2e-6) << text << " " << c;
    }
  }
}

// Texts beside a text change nothing of its vector, nor do places of the arena that no text has.
TEST(DenseHead, TakesAnyNumberOfTexts) {
  const DenseLayer layer = read_dense_layer(family_folder(kFamily) / "3_Dense", 48);
  const DenseHead head({layer}, open_device("cpu"));
  std::mt19937 random(3);
  const Tensor all = random_tensor(DType::f32, {37, 48}, random);
  const Tensor want = head.run(all);
  for (const std::int64_t texts : {1, 2, 3, 17, 33}) {
    const Tensor got = head.run(converted(view_of(all.data(), DType::f32, {texts, 48}), DType::f32));
    for (std::int64_t i = 0; i < got.size(); ++i) ASSERT_EQ(got.as<float>()[i], want.as<float>()[i]);
  }
}

}  // namespace
}  // namespace stof
