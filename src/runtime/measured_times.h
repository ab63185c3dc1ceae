// SPDX-License-Identifier: Apache-2.0
// The oracle that measures: what the log has is not measured again, in whatever search. What it has of a model with
// other weights is compared again and not timed.
#pragma once
#include <list>
#include <map>
#include <memory>
#include <string>

#include "src/base/stopwatch.h"
#include "src/fusion/cost.h"
#include "src/fusion/time_log.h"
#include "src/runtime/work_timer.h"

namespace stof {

// Those of candidates_of() that are worth a measurement.
std::vector<Candidate> promising(const Work& work, const CostContext& call);

struct MeasuringOptions {
  ProgramOptions program;
  EvenCall call;
  double seconds_a_time = 0.01;
  double most_bytes = 0;      // of activations at a time; 0: no limit
  double budget_seconds = 0;  // 0: no end
};

class MeasuredTimes final : public Oracle {
 public:
  // Borrows the log. What only predictions choose between on the device is not asked of it.
  MeasuredTimes(const MeasuringOptions& options, TimeLog& log);

  std::vector<Candidate> candidates(const Work& work) override;
  std::optional<double> measure(const Work& work, const Candidate& candidate) override;
  std::string wrong_with(const std::string& work) const override;
  bool has_time() override;
  void release();  // the memory of what was timed
  double held_bytes() const;

  int measured() const { return measured_; }
  int remembered() const { return remembered_; }
  int compared() const { return compared_; }  // of those remembered: anew, since it was with other weights
  int wrong() const { return wrong_; }

 private:
  const LoggedTime& asked(const Work& work, const std::string& setting, const LoggedTime* of_others);
  WorkTimer& timer_for(const Work& work);

  MeasuringOptions options_;
  TimeLog& log_;
  Stopwatch watch_;
  struct Held {
    std::string work;
    double bytes;
    std::unique_ptr<WorkTimer> timer;
  };
  std::list<Held> timers_;                          // the last used first
  std::map<std::string, std::string> wrong_words_;  // by work, of the last setting that was wrong
  int measured_ = 0, remembered_ = 0, compared_ = 0, wrong_ = 0;
};

}  // namespace stof
