// SPDX-License-Identifier: Apache-2.0
// Plans of one model against each other, as whole models: together, parts cost something else than alone.
#pragma once
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/fusion/plan.h"
#include "src/fusion/search.h"
#include "src/runtime/bucket.h"
#include "src/runtime/program.h"

namespace stof {

using Settings = std::map<std::string, std::string>;  // by work

// One work of a plan run in another way.
struct Change {
  std::string work, setting;
};

// Settings that were measured to come near the best of their work, of the works that take a share of the whole worth
// trying; what may bring most comes first.
std::vector<Change> worth_trying(const SearchResult& found, const SettledScheme& plan,
                                 const std::map<std::string, int>& counts);

// The settings with those of the changes, one by one, that make the whole faster: each is timed between two times of
// what there was before, so that a clock that drifts decides nothing.
Settings refined(Settings settings, const std::vector<Change>& changes,
                 const std::function<double(const Settings&)>& us,
                 const std::function<void(const std::string&)>& explain);

struct ContestOptions {
  ProgramOptions program;
  Bucket bucket;
  std::int64_t vocabulary = 1;
  double seconds = 0.3;            // of timing a whole model
  double seconds_a_change = 0.05;  // the same, for each change of a setting
  std::function<void(const std::string&)> explain = {};
};

struct Contender {
  std::string what;
  Scheme scheme;
  Settings settings;
  bool may_win = true;  // false: timed to compare the others with
};

class Contest {
 public:
  // Borrows the blocks.
  Contest(const Blocks& blocks, ContestOptions options);

  // Times it and compares it with the unfused model. It wins where it is right and faster than all before.
  void enter(const Contender& contender);
  // The winner with what refined() makes of its settings, once more as a contender.
  void refine(const std::string& what, const std::vector<Change>& changes);

  const std::vector<ConfirmedTime>& times() const { return times_; }
  // Throws internal where none that may win was right.
  const Contender& winner() const;
  std::int64_t arena_bytes() const { return arena_bytes_; }  // of the winner
  double error_against_f32() const;                          // the winner's, relative, of the first rows

 private:
  class Whole;
  std::vector<float> unfused(DType dtype) const;
  ProgramOptions with(const Settings& settings) const;

  const Blocks& blocks_;
  ContestOptions options_;
  std::vector<float> want_, rows_;  // first rows of the unfused model, and of the winner
  std::vector<ConfirmedTime> times_;
  std::optional<Contender> winner_;
  double least_ = 0;                                              // us of the winner
  double least_error_ = std::numeric_limits<double>::infinity();  // of those that may win
  std::int64_t arena_bytes_ = 0;
};

}  // namespace stof
