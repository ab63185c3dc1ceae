// SPDX-License-Identifier: Apache-2.0
// Whole models against each other; and what is changed in a plan after its parts are settled, by times of the whole
// that are written down here.
#include "src/runtime/contest.h"

#include <gtest/gtest.h>

#include "src/fusion/fuse.h"
#include "src/graph/build.h"
#include "src/graph/simplify.h"
#include "tests/expect_error.h"
#include "tests/runtime/small_bert.h"

namespace stof {
namespace {

const std::vector<Change> kChanges{{"up", "wide"}, {"down", "wide"}, {"out", "tall"}};

class Refined : public ::testing::Test {
 protected:
  std::map<std::string, double> us_{{"up wide", -10}, {"down wide", 5}, {"out tall", -0.1}};
  std::vector<std::size_t> asked_;  // how many settings together
  std::vector<std::string> explained_;

  Settings from(const Settings& settings) {
    const auto times_of = [this](std::span<const Settings> all) {
      std::vector<double> times;
      for (const Settings& asked : all) {
        times.push_back(1000);
        for (const auto& [work, setting] : asked)
          if (const auto found = us_.find(work + " " + setting); found != us_.end()) times.back() += found->second;
      }
      asked_.push_back(all.size());
      return times;
    };
    return refined(settings, kChanges, times_of, [this](const std::string& line) { explained_.push_back(line); });
  }
};

const Settings kSquare{{"up", "square"}, {"down", "square"}, {"out", "square"}};

TEST_F(Refined, WhatMakesTheWholeFasterIsKept) {
  EXPECT_EQ(from(kSquare), (Settings{{"up", "wide"}, {"down", "square"}, {"out", "square"}}));  // 0.01 % is noise
  ASSERT_EQ(explained_.size(), 3U);
  EXPECT_EQ(explained_[0], "whole     1000.00 ->   1005.00 us  undone  down: wide");
  EXPECT_EQ(explained_[1], "whole     1000.00 ->    999.90 us  undone  out: tall");
  EXPECT_EQ(explained_[2], "whole     1000.00 ->    990.00 us  kept    up: wide");
  EXPECT_EQ(asked_, (std::vector<std::size_t>{4, 2}));  // all in turns, then what won beside what there was
}

// What brings most goes first, and the others have to be faster than that.
TEST_F(Refined, ChangesThatEachWouldWinAreTimedBesideThoseThatWon) {
  us_ = {{"up wide", -10}, {"down wide", -20}, {"out tall", -30}};
  EXPECT_EQ(from(kSquare), (Settings{{"up", "wide"}, {"down", "wide"}, {"out", "tall"}}));
  ASSERT_EQ(explained_.size(), 3U);
  EXPECT_EQ(explained_[0], "whole     1000.00 ->    970.00 us  kept    out: tall");
  EXPECT_EQ(explained_[2], "whole      950.00 ->    940.00 us  kept    up: wide");
}

TEST_F(Refined, NothingToTryIsNotTimed) {
  const TimesOf fails = [](std::span<const Settings>) -> std::vector<double> { throw std::logic_error("timed"); };
  EXPECT_TRUE(refined({}, {}, fails, {}).empty());
}

TEST(WorthTrying, WhatComesNearTheBestOfWhatTakesMost) {
  SearchResult found;
  found.us = 1000;
  found.tried["up"] = {{"a", 20}, {"b", 20.5}, {"c", 20.9}, {"d", 20.95}, {"e", 25}};
  found.tried["down"] = {{"a", 30}, {"b", 33}};
  found.tried["out"] = {{"a", 40}, {"b", 41}};
  found.tried["rare"] = {{"a", 1}, {"b", 1}};
  const SettledScheme plan{
      .scheme = {}, .settings = {{"up", "b"}, {"down", "a"}, {"out", "a"}, {"rare", "a"}}, .us = 1000};
  std::vector<std::string> changes;
  for (const Change& change : worth_trying(found, plan, {{"up", 12}, {"down", 12}, {"out", 12}, {"rare", 1}}))
    changes.push_back(change.work + " " + change.setting);
  EXPECT_EQ(changes, (std::vector<std::string>{"out b", "up a", "up c"}));
}

TEST(Contest, WhoMayNotWinIsTimedAndDoesNotWin) {
  const Device device = open_device("cpu");
  const Model model = small_bert(1);
  const Graph graph = simplify(build_graph(model));
  const Blocks blocks(graph, {&device, DType::f32});
  ContestOptions options;
  options.program.device = device;
  options.program.longest = model.config.max_positions;
  options.program.weights = std::make_shared<WeightStore>();
  options.bucket = bucket_of({32, 2, 16}, model.config.max_positions);
  options.vocabulary = model.config.vocab_size;
  options.seconds = 0.002;
  Contest contest(blocks, options);
  contest.enter({"default", default_scheme(blocks), {}, false});
  contest.race();
  ASSERT_EQ(contest.times().size(), 1U);
  EXPECT_GT(contest.times().front().us, 0);
  EXPECT_ERROR(contest.winner(), ErrorKind::internal,
               "no plan computes what the unfused model does: the best is off by inf");
  contest.enter({"again", default_scheme(blocks), {}});
  contest.race();
  EXPECT_EQ(contest.winner().what, "again");
  EXPECT_GT(contest.arena_bytes(), 0);
  EXPECT_LE(contest.error_against_f32(), 1e-5);
}

// As many rounds for each, and values in memory that they share.
TEST(Contest, RivalsAreTimedInTheSameRounds) {
  const Device device = open_device("cpu");
  const Model model = small_bert(1);
  const Graph graph = simplify(build_graph(model));
  const Blocks blocks(graph, {&device, DType::f32});
  ContestOptions options;
  options.program = {.device = device, .longest = model.config.max_positions};
  options.program.weights = std::make_shared<WeightStore>();
  options.bucket = bucket_of({32, 2, 16}, model.config.max_positions);
  options.vocabulary = model.config.vocab_size;
  options.seconds = 0.002;
  Contest contest(blocks, options);
  contest.enter({"default", default_scheme(blocks), {}});
  contest.enter({"detached", detached_scheme(blocks), {}});
  EXPECT_TRUE(contest.times().empty());
  contest.race();
  ASSERT_EQ(contest.times().size(), 2U);
  EXPECT_EQ(contest.times()[0].runs, contest.times()[1].runs);
  for (const ConfirmedTime& time : contest.times()) EXPECT_LE(time.error, 1e-5);
}

}  // namespace
}  // namespace stof
