// SPDX-License-Identifier: Apache-2.0
// Checkpoints of every family, in one file and in shards, of f32, f16 and a mix of three dtypes, against transformers
// in fp32 (tools/make_small_models.py).
#include "tests/runtime/families.h"

#include <gtest/gtest.h>

#include <cmath>

#include "src/tensor/npy.h"
#include "stof/session.h"
#include "tests/expect_error.h"
#include "tests/runtime/changed_family.h"
#include "tests/runtime/large_sums.h"
#include "tests/runtime/random_prompts.h"
#include "tests/worst.h"

namespace stof {
namespace {

constexpr double kBound = 2e-5;        // of a hidden state, whose components are of size 1
constexpr double kLogitsBound = 4e-5;  // of scores up to 23: 2e-6 of the largest

Session session_of(const std::string& family, SessionOptions options) {
  options.device = "cpu";
  return Session::load(family_folder(family), options);
}

void expect_near(const Tensor& got, const Tensor& want, double bound) {
  ASSERT_EQ(got.shape(), want.shape());
  for (std::int64_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(got.as<float>()[i], want.as<float>()[i], bound) << "component " << i;
}

class EveryFamily : public testing::TestWithParam<std::string> {
 protected:
  Tensor reference(const std::string& name) const { return read_npy(family_folder(GetParam()) / name); }
  Embeddings hidden(const SessionOptions& options, std::int64_t batch) const {
    return session_of(GetParam(), options)
        .embed(texts_of_family(GetParam()), {.pooling = Pooling::none, .batch = batch});
  }
};
INSTANTIATE_TEST_SUITE_P(Families, EveryFamily,
                         testing::Values("roberta", "xlm_roberta", "distilbert", "longformer", "gpt2", "modernbert",
                                         "modernbert_with_biases", "llama", "llama_with_biases", "mistral", "qwen2",
                                         "qwen3", "phi3", "phi4", "gemma2", "gemma3", "mpnet", "t5", "t5_gated",
                                         "eurobert", "nomic"),
                         [](const auto& test) { return test.param; });

class EveryDecoder : public EveryFamily {};
INSTANTIATE_TEST_SUITE_P(Families, EveryDecoder,
                         testing::Values("gpt2", "llama", "llama_with_biases", "mistral", "qwen2", "qwen3", "phi3",
                                         "phi4", "gemma2", "gemma3"),
                         [](const auto& test) { return test.param; });

TEST_P(EveryFamily, HasTheHiddenStatesOfTransformers) {
  const Tensor want = reference("hidden.npy"), lengths = reference("lengths.npy");
  std::vector<std::int32_t> nonempty;
  for (std::int64_t i = 0; i < lengths.size(); ++i)
    if (lengths.as<std::int32_t>()[i] > 0) nonempty.push_back(lengths.as<std::int32_t>()[i]);
  for (const std::int64_t batch : {1, 5, 32}) {
    const Embeddings got = hidden({.threads = 2}, batch);
    EXPECT_EQ(got.lengths, nonempty);
    expect_near(got.values, want, kBound);
  }
  expect_near(hidden({.threads = 1, .padded = true}, 32).values, want, kBound);
}

TEST_P(EveryFamily, IsRestrictedByAMask) {
  const Tensor want = reference("hidden.npy");
  const auto farthest = [&](const std::string& mask) {
    const Tensor got = hidden({.mask = parse(mask)}, 32).values;
    double worst = 0;
    for (std::int64_t i = 0; i < want.size(); ++i)
      keep_worst(worst, std::abs(double{got.as<float>()[i]} - want.as<float>()[i]));
    return worst;
  };
  EXPECT_LE(farthest("window(200)"), kBound);
  EXPECT_GT(farthest("window(1)"), 0.05);
  const bool decodes = std::filesystem::exists(family_folder(GetParam()) / "logits.npy");
  if (decodes) EXPECT_LE(farthest("causal"), kBound);  // within its own mask
  else EXPECT_GT(farthest("causal"), 0.05);
}

class RelativePositionsOf : public EveryFamily {};
INSTANTIATE_TEST_SUITE_P(Families, RelativePositionsOf, testing::Values("mpnet", "t5", "t5_gated"),
                         [](const auto& test) { return test.param; });

// A text that is longer than the last bucket of distances is far.
TEST_P(RelativePositionsOf, AreThoseOfTransformersFarBeyondTheLastBucket) {
  std::string text;
  for (int i = 0; i < 4; ++i) text += texts_of_family(GetParam()).back();
  const std::vector<std::string> texts{text};
  for (const bool padded : {false, true}) {
    const Session session = session_of(GetParam(), {.threads = 2, .padded = padded});
    expect_near(session.embed(texts, {.pooling = Pooling::none}).values, reference("far.npy"), kBound);
  }
}

// Norms leave nothing of how large they are.
TEST(T5, SumsBetweenLayersMayBeLarge) {
  const Model model = t5_with_large_sums();
  const Session small = session_of("t5", {}), large(model, {.device = "cpu"});
  const TokenBatch batch = random_prompts({7, 33, 1}, 1);
  expect_near(large.run(batch), small.run(batch), kBound);
}

TEST_P(EveryDecoder, HasTheLogitsOfTransformers) {
  const Session session = session_of(GetParam(), {.logits = true});
  EXPECT_EQ(session.columns(), 800);
  EXPECT_EQ(session.hidden_size(), 32);
  EXPECT_EQ(session.pooling(), Pooling::last);
  const Embeddings last = session.embed(texts_of_family(GetParam()));
  expect_near(last.values, reference("logits.npy"), kLogitsBound);
  const Embeddings all = session.embed(texts_of_family(GetParam()), {.pooling = Pooling::none});
  std::int64_t row = -1;
  for (std::size_t text = 0; text < all.lengths.size(); ++text) {
    row += all.lengths[text];
    for (std::int64_t c = 0; c < 800; ++c)
      ASSERT_EQ(all.values.as<float>()[row * 800 + c],
                last.values.as<float>()[static_cast<std::int64_t>(text) * 800 + c]);
  }
}

TEST_P(EveryDecoder, SeesBothSidesWhereItIsNotCausal) {
  const ChangedFamily folder(GetParam(), {{"is_causal", false}});
  const std::vector<std::string> texts{texts_of_family(GetParam()).back()};
  const Session session = Session::load(folder.path(), {.device = "cpu"});
  expect_near(session.embed(texts, {.pooling = Pooling::none}).values, reference("both_sides.npy"), kBound);
}

TEST_P(EveryDecoder, OnlyOneThatIsCausalGoesOn) {
  const ChangedFamily folder(GetParam(), {{"is_causal", false}});
  const Session session = Session::load(folder.path(), {.device = "cpu", .logits = true});
  const std::vector<std::string> texts{"The bread"};
  EXPECT_EQ(session.embed(texts).values.shape(), (Shape{1, 800}));
  EXPECT_ERROR(session.generate(texts), ErrorKind::unsupported,
               "'is_causal' is false in config.json of this model, whose tokens see what is behind them; accepted for "
               "generating: true");
}

// As a model of embeddings has it.
TEST(Gemma, SeesBothSidesByWindowsOfItsOwn) {
  const ChangedFamily folder("gemma3", {{"use_bidirectional_attention", true}});
  const std::vector<std::string> texts{texts_of_family("gemma3").back()};
  const Session session = Session::load(folder.path(), {.device = "cpu"});
  expect_near(session.embed(texts, {.pooling = Pooling::none}).values,
              read_npy(family_folder("gemma3") / "both_directions.npy"), kBound);
}

// Of texts that are all global, and of longer ones; a mask restricts global tokens, too.
TEST(Longformer, HasGlobalTokensAsInTransformers) {
  const Tensor want = read_npy(family_folder("longformer") / "global_tokens.npy");
  const std::vector<std::string> texts = texts_of_family("longformer");
  for (const std::int64_t batch : {1, 5, 32}) {
    const Session session = session_of("longformer", {.threads = 2, .global_tokens = 3});
    expect_near(session.embed(texts, {.pooling = Pooling::none, .batch = batch}).values, want, kBound);
  }
  const Session padded = session_of("longformer", {.padded = true, .global_tokens = 3});
  expect_near(padded.embed(texts, {.pooling = Pooling::none}).values, want, kBound);
  const Session narrow = session_of("longformer", {.mask = parse("window(8)"), .global_tokens = 3});
  const Session local = session_of("longformer", {.mask = parse("window(8)")});
  const std::vector<std::string> text{texts.back()};
  const auto last_of = [&](const Session& session) { return session.embed(text, {.pooling = Pooling::last}).values; };
  expect_near(last_of(narrow), last_of(local), 1e-6);  // out of their sight
  // Nor do they see what is behind the mask, also not what others have seen of it: two layers of 8 tokens.
  const auto first_of = [&](const std::string& end) {
    return narrow
        .embed(
            std::vector<std::string>{"a storm is coming and nobody leaves the harbour tonight; the bread rises " + end},
            {.pooling = Pooling::cls})
        .values;
  };
  expect_near(first_of("in a cold kitchen"), first_of("slowly"), kBound);
}

// The rows that are dropped in front of the end of the last layer are those of both attentions.
TEST(Longformer, KeepsRowsOfGlobalTokens) {
  const Session session = session_of("longformer", {.global_tokens = 3});
  const std::vector<std::string> texts = texts_of_family("longformer");
  const Embeddings all = session.embed(texts, {.pooling = Pooling::none});
  const Tensor first = session.embed(texts, {.pooling = Pooling::cls}).values;
  std::int64_t row = 0;
  for (std::size_t text = 0; text < texts.size(); row += all.lengths[text++])
    for (std::int64_t c = 0; c < 32; ++c)
      ASSERT_NEAR(first.as<float>()[static_cast<std::int64_t>(text) * 32 + c], all.values.as<float>()[row * 32 + c],
                  1e-5);
}

TEST(Longformer, AloneHasGlobalTokens) {
  EXPECT_ERROR(session_of("roberta", {.global_tokens = 1}), ErrorKind::unsupported,
               "global tokens of RobertaForMaskedLM; accepted: of Longformer, whose checkpoints have weights for them");
  for (const std::int64_t tokens : {-1, 201})
    EXPECT_ERROR(session_of("longformer", {.global_tokens = tokens}), ErrorKind::invalid_argument,
                 std::to_string(tokens) + " global tokens; accepted: 0 to 200");
  EXPECT_EQ(session_of("longformer", {.global_tokens = 200}).max_tokens(), 200);
}

TEST(Gpt2, RefusesWhatHasNoMeaning) {
  const Session session = session_of("gpt2", {.logits = true});
  const std::vector<std::string> texts{"a", ""};
  EXPECT_ERROR(session.embed(texts), ErrorKind::invalid_argument, "text 2 has no tokens; accepted: 1 or more");
  EXPECT_ERROR(session.embed(std::span(texts).first(1), {.pooling = Pooling::mean}), ErrorKind::invalid_argument,
               "logits are not pooled; accepted: those of the last token (last), of every one (none), or a session "
               "without logits, for vectors");
  EXPECT_ERROR(session_of("roberta", {.logits = true}), ErrorKind::unsupported,
               "no logits of RobertaForMaskedLM; accepted: GPT-2, Llama, Mistral, Qwen2, Qwen3, Phi-3, Gemma");
}

}  // namespace
}  // namespace stof
