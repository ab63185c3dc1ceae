// SPDX-License-Identifier: Apache-2.0
// The search against times that are written down here: what it finds is known, and how often it asks is counted.
#include "src/fusion/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "src/base/hash.h"
#include "src/fusion/fuse.h"
#include "src/fusion/plan_model.h"
#include "src/graph/build.h"
#include "src/graph/simplify.h"
#include "tests/expect_error.h"
#include "tests/runtime/small_bert.h"
#include "tests/runtime/small_modernbert.h"

namespace stof {
namespace {

// A work costs what its first word does; matmuls have settings, the best of which is predicted to be mediocre.
class Scripted final : public Oracle {
 public:
  std::map<std::string, double> costs{{"lookup", 3},  {"embed", 4},     {"add", 4},      {"layer_norm", 4},
                                      {"matmul", 10}, {"linear", 11},   {"add_bias", 3}, {"activate", 3},
                                      {"attend", 20}, {"add_layer", 5}, {"residual", 13}};
  double noise = 0;
  int answers_left = 1000000;
  std::set<std::string> wrong;
  std::vector<std::string> asked;

  std::vector<Candidate> candidates(const Work& work) override {
    if (!has_settings(work.text)) return {{"", cost(work.text)}};
    std::vector<Candidate> all;
    for (int i = 0; i < 8; ++i) all.push_back({"setting " + std::to_string(i), 10.0 + i});
    return all;
  }
  std::optional<double> measure(const Work& work, const Candidate& candidate) override {
    const std::string question = work.text + " | " + candidate.setting;
    asked.push_back(question);
    --answers_left;
    if (wrong.contains(candidate.setting)) return std::nullopt;
    const double uniform = static_cast<double>(hash64(question.data(), question.size()) >> 11) * 0x1p-53 - 0.5;
    const double settled = candidate.setting.empty() || candidate.setting == "setting 5" ? 1 : 1.1;
    return cost(work.text) * settled * (1 + noise * uniform);
  }
  std::string wrong_with(const std::string&) const override { return "off by much"; }
  bool has_time() override { return answers_left > 0; }

 private:
  static bool has_settings(const std::string& work) { return work.starts_with("linear") || work.starts_with("matmul"); }
  double cost(const std::string& work) const {
    if (work.find(" residual") != std::string::npos) return costs.at("residual");
    std::string longest;
    for (const auto& [word, us] : costs)
      if (work.starts_with(word) && word.size() > longest.size()) longest = word;
    return costs.at(longest);
  }
};

class SearchTest : public ::testing::Test {
 protected:
  Model model_ = small_bert(3);
  Graph graph_ = simplify(build_bert(model_));
  Blocks blocks_{graph_};
  Scripted oracle_;
  std::vector<std::string> explained_;

  SearchResult from(const Scheme& start, SearchOptions options = {}) {
    options.explain = [this](const std::string& line) { explained_.push_back(line); };
    return search(blocks_, std::span(&start, 1), oracle_, options);
  }
};

TEST_F(SearchTest, FindsTheSchemeFromNothingFused) {
  const SearchResult found = from(detached_scheme(blocks_));
  // A residual in the matmul costs 13, a matmul with bias and residual apart 11 + 4, and then the norm 4 or 5.
  EXPECT_EQ(found.scheme.text(), default_scheme(blocks_).text());
  EXPECT_DOUBLE_EQ(found.us, 4 + 3 * (4 * 11 + 20 + 2 * 5));
  EXPECT_EQ(found.settings.at("linear 24>72"), "setting 5");
  EXPECT_TRUE(found.finished);
  EXPECT_GT(found.moves_kept, 0);
}

TEST_F(SearchTest, AResidualGoesWhereItIsCheaper) {
  oracle_.costs["residual"] = 11.2;
  EXPECT_EQ(from(default_scheme(blocks_)).scheme.bits[1], "001111100010001110");
}

// Fusing is not always a win: what is slower is undone, and a fused start is taken apart.
TEST_F(SearchTest, SlowerFusionsAreUndone) {
  oracle_.costs["add_layer"] = 12;
  const SearchResult found = from(default_scheme(blocks_));
  EXPECT_EQ(found.scheme.bits[1], "001111100010001110");
  const auto undone = [](const std::string& line) { return line.find("undone") != std::string::npos; };
  EXPECT_TRUE(std::any_of(explained_.begin(), explained_.end(), undone));
}

TEST_F(SearchTest, NothingIsAskedTwice) {
  from(detached_scheme(blocks_));
  EXPECT_EQ(std::set<std::string>(oracle_.asked.begin(), oracle_.asked.end()).size(), oracle_.asked.size());
}

TEST_F(SearchTest, TheSameAnswersGiveTheSamePlan) {
  oracle_.noise = 0.1;
  const SearchResult once = from(detached_scheme(blocks_), {.seed = 7});
  const std::vector<std::string> asked = std::exchange(oracle_.asked, {});
  const SearchResult again = from(detached_scheme(blocks_), {.seed = 7});
  EXPECT_EQ(once.scheme, again.scheme);
  EXPECT_EQ(once.settings, again.settings);
  EXPECT_EQ(once.us, again.us);
  EXPECT_EQ(asked, oracle_.asked);
}

TEST_F(SearchTest, ALittleNoiseDoesNotChangeTheScheme) {
  oracle_.noise = 0.02;
  for (std::uint64_t seed = 1; seed <= 5; ++seed)
    EXPECT_EQ(from(detached_scheme(blocks_), {.seed = seed}).scheme.text(), default_scheme(blocks_).text());
}

TEST_F(SearchTest, AWrongSettingNeverWins) {
  oracle_.wrong = {"setting 5", "setting 0", "setting 1", "setting 2"};
  const SearchResult found = from(default_scheme(blocks_));
  for (const auto& [work, setting] : found.settings) EXPECT_FALSE(oracle_.wrong.contains(setting)) << work;
}

TEST_F(SearchTest, AWorkThatNothingRunsIsNamed) {
  for (int i = 0; i < 8; ++i) oracle_.wrong.insert("setting " + std::to_string(i));
  EXPECT_ERROR(from(default_scheme(blocks_)), ErrorKind::unsupported,
               "no setting of 'linear 24>24' is right: off by much");
}

TEST_F(SearchTest, OutOfTimeItHasTheBestSoFar) {
  for (const int answers : {1, 5, 20}) {
    oracle_.answers_left = answers;
    const SearchResult found = from(detached_scheme(blocks_));
    EXPECT_FALSE(found.finished);
    check_scheme(blocks_, found.scheme);
  }
}

TEST_F(SearchTest, RewardDecidesWhoIsTriedNext) {
  const Scheme start = default_scheme(blocks_);
  from(start, {.samples = 1, .round = 4, .most_rounds = 6, .change_scheme = false});
  // What is done once a model is worth less than what is done three times, and both get something.
  std::map<std::string, int> tries;
  for (const std::string& question : oracle_.asked) ++tries[question.substr(0, question.find(" |"))];
  EXPECT_GE(tries.at("linear 24>72"), 2);
  EXPECT_EQ(tries.at("attend_packed 72>24 heads=3 mask=all"), 1);
}

// Sums of parts that lie closer than what the parts' times mean: whole models must tell.
TEST_F(SearchTest, StartsThatComeNearTheWinnerAreItsRivals) {
  const std::vector<Scheme> known = known_schemes(blocks_);
  for (const auto& [near, some] : {std::pair(0.5, true), std::pair(1e-6, false)}) {
    const SearchResult found = search(blocks_, known, oracle_, {.near = near});
    EXPECT_EQ(!found.rivals.empty(), some);
    for (const SettledScheme& rival : found.rivals) {
      EXPECT_NE(rival.scheme, found.scheme);
      EXPECT_LE(rival.us, 1.5 * found.us);
      check_scheme(blocks_, rival.scheme);
      for (const auto& [work, setting] : rival.settings) {
        const std::vector<SettingTime>& tried = found.tried.at(work);
        EXPECT_EQ(tried.front().setting, setting) << work;
        EXPECT_TRUE(std::is_sorted(tried.begin(), tried.end(),
                                   [](const SettingTime& a, const SettingTime& b) { return a.us < b.us; }));
      }
    }
  }
}

TEST_F(SearchTest, KnownSchemesAreLegalAndDiffer) {
  const std::vector<Scheme> known = known_schemes(blocks_);
  EXPECT_EQ(known.front(), default_scheme(blocks_));
  std::set<std::string> texts;
  for (const Scheme& scheme : known) {
    check_scheme(blocks_, scheme);
    EXPECT_TRUE(texts.insert(scheme.text()).second) << scheme.text();
  }
}

// Where the host has one way of running a matmul nothing is chosen that rounds otherwise.
TEST_F(SearchTest, OnTheHostPredictionsKeepTheDefaultScheme) {
  const Device device = open_device("cpu");
  EXPECT_EQ(analytical_search(blocks_, {&device, DType::f32, 128, 1, 128}).scheme, default_scheme(blocks_));
}

std::int64_t turning_matmuls(const Graph& graph) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    const auto* linear = std::get_if<op::Linear>(&node.op);
    return linear != nullptr && linear->turned;
  });
}

// In f32 there is no such matmul, and turning stays an operation on rows.
TEST(Predictions, LetMatmulsTurnHeadsOfFewRowsOnAGpu) {
  const Device device = open_device("cuda:h200");
  const Model model = small_modernbert();
  const Graph graph = simplify(build_graph(model));
  for (const DType dtype : {DType::f16, DType::f32}) {
    const Blocks blocks(graph, {&device, dtype});
    const Graph fused = fuse(blocks, analytical_search(blocks, {&device, dtype, 1024, 2, 512}).scheme);
    EXPECT_EQ(turning_matmuls(fused), dtype == DType::f16 ? model.config.layers : 0);
  }
}

// Projections as wide as those of ModernBERT-base, as most whole models were measured
// (bench/results/h200-turned-heads.txt).
TEST(Predictions, TurnHeadsInTheMatmulOfFewRowsAndOfMany) {
  const Device device = open_device("cuda:h200");
  ModelConfig config = small_modernbert_config();
  config.hidden_size = 768, config.heads = 12;
  const Model model = small_modernbert(std::move(config));
  const Graph graph = simplify(build_graph(model));
  const Blocks blocks(graph, {&device, DType::f16});
  for (const auto& [texts, tokens] : {std::pair{1, 128}, std::pair{1, 512}, std::pair{8, 512}, std::pair{8, 2048}}) {
    const CostContext call{&device, DType::f16, std::int64_t{texts} * tokens, texts, tokens};
    EXPECT_EQ(turning_matmuls(fuse(blocks, analytical_search(blocks, call).scheme)), model.config.layers)
        << texts << " x " << tokens;
  }
}

}  // namespace
}  // namespace stof
