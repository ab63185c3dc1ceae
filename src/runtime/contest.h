// SPDX-License-Identifier: Apache-2.0
// Plans of one model against each other, as whole models: together, parts cost something else than alone.
#pragma once
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/fusion/plan.h"
#include "src/fusion/search.h"
#include "src/runtime/bucket.h"
#include "src/runtime/program.h"
#include "src/runtime/row_errors.h"
#include "src/runtime/timed_call.h"

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

// In microseconds, one for each of the settings: timed in turns.
using TimesOf = std::function<std::vector<double>(std::span<const Settings>)>;

// The settings with those of the changes that make the whole faster: all of them are timed beside what there was
// before, and what won there once more, one by one, beside the settings so far.
Settings refined(Settings settings, const std::vector<Change>& changes, const TimesOf& times_of,
                 const std::function<void(const std::string&)>& explain);

struct ContestOptions {
  ProgramOptions program;
  EvenCall call;
  std::int64_t vocabulary = 1;
  double seconds = 0.3;            // of timing a whole model
  double seconds_a_change = 0.05;  // the same, for each change of a setting
  double window_seconds = 0.15;    // Turns::window_seconds of race(), on a device that works beside the host
  std::function<bool()> has_time = [] { return true; };  // false: race() times each once and no more
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
  ~Contest();

  // Compares it with the unfused model. The same scheme and settings under another name are made and timed once.
  void enter(const Contender& contender);
  // Whether one that may win has entered and is right.
  bool has_right() const;
  // Times all that entered, in turns. In their order each wins that is right and faster than the winner before it.
  void race();
  // After race(): what refined() makes of the winner's settings, as one more that may win. Its time is the winner's in
  // the race, by how much faster it was beside it: the clock is another one by now.
  void refine(const std::string& what, const std::vector<Change>& changes);

  const std::vector<ConfirmedTime>& times() const { return times_; }
  // Throws unsupported where none that may win was right.
  const Contender& winner() const;
  std::int64_t arena_bytes() const { return arena_bytes_; }  // of the winner
  RowErrors error_against_f32() const;                       // the winner's, of every row: both run once more

 private:
  class Whole;
  struct Entry {
    Contender contender;
    std::shared_ptr<Whole> whole;  // of all entries with this scheme and these settings; null once others were faster
    std::vector<float> rows;       // the first ones that it computes
    double error = 0;
    CallTime time = {};
  };
  ProgramOptions plain(DType dtype) const;
  std::vector<float> unfused() const;  // the first rows
  ProgramOptions with(const Settings& settings) const;
  Entry made(const Contender& contender) const;
  static std::vector<CallTime> in_turns(const Whole& of, std::span<const OneTime> rivals, Turns turns);
  bool is_right(const Entry& entry) const;
  void note(const Entry& entry);
  void take(Entry&& entry);  // it wins

  const Blocks& blocks_;
  ContestOptions options_;
  mutable GrowingMemory arena_;
  std::vector<float> want_;  // first rows of the unfused model
  std::vector<Entry> entered_;
  std::vector<ConfirmedTime> times_;
  std::optional<Entry> winner_;
  double least_error_ = std::numeric_limits<double>::infinity();  // of those that may win
  std::int64_t arena_bytes_ = 0;
};

}  // namespace stof
