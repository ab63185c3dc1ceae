// SPDX-License-Identifier: Apache-2.0
// Whole models against each other; and what is changed in a plan after its parts are settled, by times of the whole
// that are written down here.
#include "src/runtime/contest.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "src/base/hash.h"
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

class OfSmallBert : public ::testing::Test {
 protected:
  ContestOptions options() const {
    ContestOptions made;
    made.program = {.device = device_, .longest = model_.config.max_positions};
    made.program.weights = std::make_shared<WeightStore>();
    made.call = even_call(2, 16, model_.config.max_positions);
    made.vocabulary = model_.config.vocab_size;
    made.seconds = 0.002;
    return made;
  }

  Device device_ = open_device("cpu");
  Model model_ = small_bert(1);
  Graph graph_ = simplify(build_graph(model_));
  Blocks blocks_{graph_, {&device_, DType::f32}};
  Contest contest_{blocks_, options()};
};

TEST_F(OfSmallBert, WhoMayNotWinIsTimedAndDoesNotWin) {
  contest_.enter({"default", default_scheme(blocks_), {}, false});
  contest_.race();
  ASSERT_EQ(contest_.times().size(), 1U);
  EXPECT_GT(contest_.times().front().us, 0);
  EXPECT_ERROR(contest_.winner(), ErrorKind::unsupported,
               "no plan computes what the unfused model does: the best is off by inf; accepted: 1e-04");
  contest_.enter({"again", default_scheme(blocks_), {}});
  contest_.race();
  EXPECT_EQ(contest_.winner().what, "again");
  EXPECT_GT(contest_.arena_bytes(), 0);
  EXPECT_LE(contest_.error_against_f32().worst_row, 1e-5);
}

// Tables are read where the model has them: what was compared with is finite, what is computed now is not.
TEST_F(OfSmallBert, WhatIsNoNumberIsSaid) {
  const TensorView& words = model_.weights.at("embeddings.word_embeddings.weight");
  std::fill_n(words.as<float>(), element_count(words.shape), std::numeric_limits<float>::quiet_NaN());
  contest_.enter({"default", default_scheme(blocks_), {}});
  contest_.race();
  EXPECT_FALSE(contest_.has_right());
  EXPECT_ERROR(contest_.winner(), ErrorKind::unsupported,
               "no plan computes what the unfused model does: the best is off by nan; accepted: 1e-04");
}

// A token that the first 64 rows, which decide who is right, have not.
TEST_F(OfSmallBert, EveryRowIsComparedWithF32) {
  const auto vocabulary = static_cast<std::uint64_t>(model_.config.vocab_size);
  std::set<std::uint64_t> early;
  for (std::uint64_t row = 0; row < 64; ++row) early.insert(splitmix64(row) % vocabulary);
  std::uint64_t late = 64;
  while (early.contains(splitmix64(late) % vocabulary)) ++late;
  ASSERT_LT(late, 128U);
  ContestOptions of_two_texts = options();
  of_two_texts.call = even_call(2, 64, model_.config.max_positions);
  Contest contest(blocks_, of_two_texts);
  contest.enter({"default", default_scheme(blocks_), {}});
  contest.race();
  EXPECT_LE(contest.error_against_f32().all, 1e-5);
  const TensorView& words = model_.weights.at("embeddings.word_embeddings.weight");
  words.as<float>()[static_cast<std::int64_t>(splitmix64(late) % vocabulary) * words.shape[1]] =
      std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(contest.error_against_f32().all));
  EXPECT_TRUE(std::isnan(contest.error_against_f32().worst_row));
}

// Their values lie in the same memory. What is timed when: tests/runtime/turns_test.cpp.
TEST_F(OfSmallBert, RivalsThatShareMemoryAreEachRight) {
  contest_.enter({"default", default_scheme(blocks_), {}});
  contest_.enter({"detached", detached_scheme(blocks_), {}});
  EXPECT_TRUE(contest_.times().empty());
  contest_.race();
  ASSERT_EQ(contest_.times().size(), 2U);
  for (const ConfirmedTime& time : contest_.times()) EXPECT_LE(time.error, 1e-5);
}

// It is named twice and timed once; whoever may win does, under the name that may.
TEST_F(OfSmallBert, TheSameUnderTwoNamesIsTimedOnce) {
  contest_.enter({"default", default_scheme(blocks_), {}, false});
  contest_.enter({"forced", default_scheme(blocks_), {}});
  contest_.enter({"tuned", default_scheme(blocks_), {}});
  const int before = times_taken();
  contest_.race();
  EXPECT_EQ(times_taken(), before + 1);
  ASSERT_EQ(contest_.times().size(), 3U);
  EXPECT_EQ(contest_.times()[0].us, contest_.times()[1].us);
  EXPECT_EQ(contest_.winner().what, "forced");
  EXPECT_LE(contest_.error_against_f32().worst_row, 1e-5);
}

}  // namespace
}  // namespace stof
