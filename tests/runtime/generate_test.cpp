// SPDX-License-Identifier: Apache-2.0
// Texts that go on: as transformers continues them, and as the whole text would be scored at once.
#include "src/runtime/generate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "src/fusion/fuse.h"
#include "src/graph/build.h"
#include "src/runtime/sampling.h"
#include "src/tensor/npy.h"
#include "stof/session.h"
#include "tests/expect_error.h"
#include "tests/runtime/changed_family.h"
#include "tests/runtime/families.h"
#include "tests/runtime/random_prompts.h"
#include "tests/runtime/small_decoder.h"

namespace stof {
namespace {

using Ids = std::vector<std::int32_t>;

Session session_of(const std::string& family, SessionOptions options = {}) {
  options.device = "cpu";
  options.logits = true;
  return Session::load(family_folder(family), options);
}

// Without a cache: the whole text is scored again for each token.
Ids gone_on(const Session& session, std::span<const std::int32_t> prompt, std::int64_t tokens) {
  Ids text(prompt.begin(), prompt.end());
  for (std::int64_t i = 0; i < tokens; ++i) {
    TokenBatch batch;
    batch.add(text);
    const Tensor scores = session.embed(batch, Pooling::last);
    const float* const begin = scores.as<float>();
    text.push_back(static_cast<std::int32_t>(std::max_element(begin, begin + scores.size()) - begin));
  }
  return {text.begin() + std::ssize(prompt), text.end()};
}

class Decoder : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Families, Decoder,
                         testing::Values("gpt2", "llama", "llama_with_biases", "mistral", "qwen2", "qwen3", "phi3",
                                         "phi4", "gemma2", "gemma3"),
                         [](const auto& test) { return test.param; });

TEST_P(Decoder, GoesOnAsInTransformers) {
  const Session session = session_of(GetParam());
  const Tensor want = read_npy(family_folder(GetParam()) / "generated.npy");
  const std::vector<std::string> texts = texts_of_family(GetParam());
  const std::int64_t tokens = want.shape()[1];
  ASSERT_EQ(want.shape()[0], std::ssize(texts));
  for (const std::int64_t batch : {1, 5, 32}) {
    const std::vector<Ids> got = session.generate(texts, {.tokens = tokens, .ends = Ids{}, .batch = batch});
    ASSERT_EQ(got.size(), texts.size());
    for (std::size_t text = 0; text < got.size(); ++text) {
      const std::int32_t* const row = want.as<std::int32_t>() + static_cast<std::int64_t>(text) * tokens;
      EXPECT_EQ(got[text], Ids(row, row + tokens)) << "text " << text << ", batches of " << batch;
    }
  }
}

// Masks beside the model's own, of which some have arrays over positions.
TEST_P(Decoder, GoesOnAsIfTheTextWereRunAtOnce) {
  const TokenBatch prompts = random_prompts({20, 1, 7, 64, 33}, 1);
  for (const char* mask : {"all", "window(4) | sink(2)", "dilated(3,2)", "documents([0,5,30,150])",
                           "heads(0: window(3), *: all)", "where((q - k) % 3 != 1)"}) {
    const Session session = session_of(GetParam(), {.mask = parse(mask)});
    const std::vector<Ids> got = session.generate(prompts, {.tokens = 9, .ends = Ids{}});
    for (std::size_t text = 0; text < got.size(); ++text) {
      const std::span ids(prompts.ids.data() + prompts.offsets[text], prompts.ids.data() + prompts.offsets[text + 1]);
      EXPECT_EQ(got[text], gone_on(session, ids, 9)) << mask << ", text " << text;
    }
  }
}

// Those that have ended make room: what is left is what it would have been.
TEST_P(Decoder, TextsEndApartFromEachOther) {
  const Session session = session_of(GetParam());
  const TokenBatch prompts = random_prompts({5, 9, 2, 14, 8, 3}, 7);
  const std::vector<Ids> whole = session.generate(prompts, {.tokens = 24, .ends = Ids{}});
  Ids ends;  // of each text its token after some steps
  for (std::size_t text = 0; text < whole.size(); ++text) ends.push_back(whole[text][(5 * text + 3) % 24]);
  const std::vector<Ids> got = session.generate(prompts, {.tokens = 24, .ends = ends});
  std::size_t shorter = 0;
  for (std::size_t text = 0; text < got.size(); ++text) {
    const auto end = std::find_first_of(whole[text].begin(), whole[text].end(), ends.begin(), ends.end());
    EXPECT_EQ(got[text], Ids(whole[text].begin(), end + 1)) << "text " << text;
    shorter += got[text].size() < 24 ? 1 : 0;
  }
  EXPECT_GE(shorter, 3U);
}

// Of more than 20 tokens all of a text's turn otherwise, those whose keys are kept, too. Each text comes to that in a
// step of its own, and others have ended by then or were long from the first token on.
TEST(Generate, TextsComeToBeLongOnes) {
  const TokenBatch prompts = random_prompts({5, 19, 21, 14, 20, 18, 64, 9}, 1);
  for (const char* mask : {"all", "window(4) | sink(2)"}) {
    const Session session = session_of("phi4", {.mask = parse(mask)});
    const std::vector<Ids> got = session.generate(prompts, {.tokens = 18, .ends = Ids{}});
    for (std::size_t text = 0; text < got.size(); ++text) {
      const std::span ids(prompts.ids.data() + prompts.offsets[text], prompts.ids.data() + prompts.offsets[text + 1]);
      EXPECT_EQ(got[text], gone_on(session, ids, 18)) << mask << ", text " << text;
    }
    Ids ends;  // of each text its token after some steps
    for (std::size_t text = 0; text < got.size(); ++text) ends.push_back(got[text][(5 * text + 3) % 18]);
    const std::vector<Ids> ended = session.generate(prompts, {.tokens = 18, .ends = ends});
    for (std::size_t text = 0; text < got.size(); ++text) {
      const auto end = std::find_first_of(got[text].begin(), got[text].end(), ends.begin(), ends.end());
      EXPECT_EQ(ended[text], Ids(got[text].begin(), end + 1)) << mask << ", text " << text;
    }
  }
}

TEST(Generate, EndsWhereThereAreNoMorePositions) {
  const Session session = session_of("llama");  // of 200
  EXPECT_EQ(session.generate(random_prompts({199, 190, 1}, 1), {.tokens = 50, .ends = Ids{}})[0].size(), 1U);
  const std::vector<Ids> got = session.generate(random_prompts({195, 20}, 1), {.tokens = 50, .ends = Ids{}});
  EXPECT_EQ(got[0].size(), 5U);
  EXPECT_EQ(got[1].size(), 50U);
  EXPECT_ERROR(session.generate(random_prompts({3, 200}, 1)), ErrorKind::invalid_argument,
               "text 1 has 200 tokens, and no room for one more; accepted: at most 199");
  EXPECT_TRUE(session.generate(TokenBatch{}).empty());
}

TEST(Generate, IsByChanceWhereItIsAskedFor) {
  const Session session = session_of("mistral");
  const TokenBatch prompts = random_prompts({6, 11, 4}, 1);
  const GenerateOptions options{.tokens = 20, .temperature = 0.8, .top_k = 50, .top_p = 0.95, .seed = 3, .ends = Ids{}};
  const std::vector<Ids> first = session.generate(prompts, options);
  EXPECT_EQ(session.generate(prompts, options), first);
  EXPECT_NE(first, session.generate(prompts, {.tokens = 20, .ends = Ids{}}));
  GenerateOptions other = options;
  other.seed = 4;
  EXPECT_NE(session.generate(prompts, other), first);
  // The likeliest one alone is left.
  GenerateOptions likeliest = options;
  likeliest.top_k = 1;
  EXPECT_EQ(session.generate(prompts, likeliest), session.generate(prompts, {.tokens = 20, .ends = Ids{}}));
}

// Gemma 2's chances are those of scores that are capped; the likeliest token is the same one without.
TEST(Generate, ByChanceCountsScoresAsTheModelCapsThem) {
  const Session session = session_of("gemma2");
  const TokenBatch prompt = random_prompts({9}, 3);
  const Tensor scores = session.embed(prompt, Pooling::last);
  const std::span row(scores.as<float>(), static_cast<std::size_t>(scores.size()));
  EXPECT_LT(*std::max_element(row.begin(), row.end()), 2);
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Ids made = session.generate(prompt, {.tokens = 1, .temperature = 0.7, .seed = seed, .ends = Ids{}})[0];
    EXPECT_EQ(made, Ids{next_token(row, {.temperature = 0.7}, chance_of(seed, 0, 0))}) << "seed " << seed;
  }
}

TEST(Generate, TellsOfEachTokenAsItIsMade) {
  const Session session = session_of("qwen3");
  const std::vector<std::string> texts{"a mask", "a longer text about masks", "x"};
  std::vector<Ids> told(texts.size());
  const std::vector<Ids> got =
      session.generate(texts, {.tokens = 6, .batch = 2, .token = [&](std::int64_t text, std::int32_t token) {
                                 told[static_cast<std::size_t>(text)].push_back(token);
                               }});
  EXPECT_EQ(told, got);
}

TEST(Generate, EndsATextWhereItIsTold) {
  const Session session = session_of("qwen3");
  const TokenBatch prompts = random_prompts({6, 3, 11, 5}, 1);
  const std::vector<Ids> whole = session.generate(prompts, {.tokens = 8, .ends = Ids{}});
  std::vector<std::size_t> seen(whole.size());
  const auto after_as_many_as_its_number = [&](std::int64_t text, std::int32_t) {
    return ++seen[static_cast<std::size_t>(text)] == static_cast<std::size_t>(text) + 1 ? Stop::text : Stop::nothing;
  };
  const std::vector<Ids> got =
      session.generate(prompts, {.tokens = 8, .ends = Ids{}, .stop = after_as_many_as_its_number});
  for (std::size_t text = 0; text < whole.size(); ++text)
    EXPECT_EQ(got[text], Ids(whole[text].begin(), whole[text].begin() + std::ssize(got[text]))) << "text " << text;
  EXPECT_EQ(seen, (std::vector<std::size_t>{1, 2, 3, 4}));
  for (std::size_t text = 0; text < whole.size(); ++text) EXPECT_EQ(got[text].size(), text + 1);
}

// Texts of batches to come are not begun.
TEST(Generate, EndsAltogetherWhereItIsTold) {
  const Session session = session_of("llama");
  const TokenBatch prompts = random_prompts({9, 8, 7, 6, 5}, 1);
  std::vector<Ids> texts;
  for (std::size_t i = 0; i + 1 < prompts.offsets.size(); ++i)
    texts.emplace_back(prompts.ids.begin() + prompts.offsets[i], prompts.ids.begin() + prompts.offsets[i + 1]);
  const std::vector<Ids> whole = session.generate(texts, {.tokens = 6, .ends = Ids{}, .batch = 2});
  EXPECT_EQ(whole, session.generate(prompts, {.tokens = 6, .ends = Ids{}}));
  for (const int last : {1, 3, 12, 17}) {
    int told = 0;
    const auto stop = [&](std::int64_t, std::int32_t) { return ++told == last ? Stop::all : Stop::nothing; };
    const std::int64_t calls = session.statistics().calls;
    const std::vector<Ids> got = session.generate(texts, {.tokens = 6, .ends = Ids{}, .batch = 2, .stop = stop});
    ASSERT_EQ(got.size(), texts.size());
    std::ptrdiff_t made = 0;
    for (std::size_t text = 0; text < got.size(); ++text) {
      made += std::ssize(got[text]);
      EXPECT_EQ(got[text], Ids(whole[text].begin(), whole[text].begin() + std::ssize(got[text])));
    }
    EXPECT_EQ(made, last);
    EXPECT_EQ(session.statistics().calls - calls, (last + 11) / 12);
  }
}

TEST(Generate, SaysWhichOfTheTokenListsIsWrong) {
  const Session session = session_of("llama");
  const auto expect = [&](const std::vector<Ids>& texts, const std::string& message) {
    EXPECT_ERROR(session.generate(texts), ErrorKind::invalid_argument, message);
  };
  expect({{1, 2}, {1, 2, 800}}, "text 1: its token 2 has id 800; accepted: 0 to 799");
  expect({{1}, {-1}}, "text 1: its token 0 has id -1; accepted: 0 to 799");
  expect({{1}, {}}, "text 1 has 0 tokens; accepted: 1 to 200");
  expect({{1}, Ids(200, 5)}, "text 1 has 200 tokens, and no room for one more; accepted: at most 199");
  EXPECT_TRUE(session.generate(std::vector<Ids>()).empty());
}

// By its number, wherever the token is chosen; GenerationLanes has that of a device.
TEST(Generate, SaysWhichTextHasScoresThatAreNan) {
  const Model model = small_decoder({});
  const_cast<float*>(model.weights.at("embed_tokens.weight").as<float>())[0] = NAN;  // of token 0, in every text
  const Program program(fused_by_default(build_graph(model, GraphResult::logits)),
                        {.device = open_device("cpu"), .longest = kLongest});
  GenerationLanes lanes(program.options().device);
  const TokenBatch prompts = random_prompts({6, 3}, 1);
  for (const double temperature : {0., 0.8}) {
    const GenerateOptions options{.tokens = 4, .temperature = temperature};
    EXPECT_ERROR(generate_tokens({.programs = GenerationPrograms(program),
                                  .lanes = lanes,
                                  .limits = {.vocabulary = kTokens, .longest = kLongest},
                                  .prompts = prompts,
                                  .numbers = std::vector<std::int64_t>{7, 9},
                                  .ends = {},
                                  .options = options}),
                 ErrorKind::invalid_argument, "a score of text 7 is NaN");
  }
}

TEST(Generate, IsTextByTheTokenizer) {
  const Session session = session_of("llama");
  const Ids ids{798, 38, 80, 81, 799};
  EXPECT_EQ(session.decode(ids), session.decode(Ids{38, 80, 81}));  // without special tokens
  for (const std::int32_t none : {-1, 800, 5000})
    EXPECT_ERROR(session.decode(Ids{38, none}), ErrorKind::invalid_argument,
                 fmt::format("token 1 has id {}; accepted: 0 to 799", none));
  EXPECT_FALSE(session.decode(ids).empty());
  EXPECT_EQ(session.decode(Ids{}), "");
}

TEST(Generate, SaysOnceWhatIsNotApplied) {
  ChangedFamily folder("qwen3");
  folder.replace("generation_config.json", R"({"repetition_penalty": 1.1})");
  std::vector<std::string> said;
  SessionOptions options{.device = "cpu", .logits = true};
  options.log = [&](std::string_view message) { said.emplace_back(message); };
  const Session session = Session::load(folder.path(), options);
  const std::vector<std::string> texts{"The bread"};
  EXPECT_TRUE(said.empty());
  for (int call = 0; call < 2; ++call) session.generate(texts, {.tokens = 2});
  EXPECT_EQ(said,
            std::vector{folder.file("generation_config.json").string() + ": 'repetition_penalty' is 1.1; not applied"});
}

TEST(Generate, RefusesWhatHasNoMeaning) {
  const Session session = session_of("llama");
  const TokenBatch prompts = random_prompts({3}, 1);
  const auto expect = [&](const GenerateOptions& options, const std::string& message) {
    EXPECT_ERROR(session.generate(prompts, options), ErrorKind::invalid_argument, message);
  };
  expect({.tokens = 0}, "tokens = 0; accepted: 1 or more");
  expect({.temperature = -1}, "temperature = -1; accepted: 0 or more");
  expect({.temperature = NAN}, "temperature = nan; accepted: 0 or more");
  expect({.top_k = -1}, "top_k = -1; accepted: 0 (all) or more");
  expect({.top_p = 0}, "top_p = 0; accepted: above 0, up to 1");
  expect({.batch = 0}, "batch = 0; accepted: 1 or more");
  EXPECT_ERROR(Session::load(family_folder("llama"), {.device = "cpu"}).generate(prompts), ErrorKind::invalid_argument,
               "this session gives hidden states; accepted for generating: a decoder's, loaded with logits");
  expect({.ends = Ids{3, 800}}, "a text is to end behind token 800; accepted: 0 to 799");
  expect({.ends = Ids{-5}}, "a text is to end behind token -5; accepted: 0 to 799");
  for (const char* mask : {"bigbird(8,3,1,1,5)", "heads(0: random_blocks(4,2,3), *: all)"})
    EXPECT_ERROR(session_of("llama", {.mask = parse(mask)}).generate(prompts), ErrorKind::unsupported,
                 "the mask " + (causal() & parse(mask)).text() +
                     " is another one for each length, and keys that are kept are of the lengths before; accepted for "
                     "going on: masks that do not depend on length");
  TokenBatch wrong;
  wrong.add(Ids{1, 800});
  EXPECT_ERROR(session.generate(wrong), ErrorKind::invalid_argument, "token 1 has id 800; accepted: 0 to 799");
}

}  // namespace
}  // namespace stof
