// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/measured_times.h"

#include <algorithm>

#include "src/base/error.h"

namespace stof {
namespace {

constexpr std::size_t kMostTimers = 4;            // each has the work's buffers; weights stay packed
constexpr double kWorstPrediction = 2.5;          // of the shortest: what should take longer is not tried
constexpr std::size_t kMostCandidates = 10;       // of a work, besides
constexpr std::string_view kAlways = "cublaslt";  // whatever is predicted for it, and early: it is compiled already
constexpr std::size_t kEarly = 2;

}  // namespace

MeasuredTimes::MeasuredTimes(const MeasuringOptions& options, TimeLog& log) : options_(options), log_(log) {
  if (!options_.program.weights) options_.program.weights = std::make_shared<WeightStore>();
}

std::vector<Candidate> promising(const Work& work, const CostContext& call) {
  std::vector<Candidate> all = candidates_of(work, call), chosen;
  for (const Candidate& candidate : all) {
    const bool hopeless =
        candidate.predicted_us > kWorstPrediction * all.front().predicted_us || chosen.size() >= kMostCandidates;
    if (!hopeless || candidate.setting == kAlways) chosen.push_back(candidate);
  }
  const auto always = std::find_if(chosen.begin(), chosen.end(),
                                   [](const Candidate& candidate) { return candidate.setting == kAlways; });
  if (always != chosen.end() && always - chosen.begin() > static_cast<std::ptrdiff_t>(kEarly))
    std::rotate(chosen.begin() + kEarly, always, always + 1);
  return chosen;
}

std::vector<Candidate> MeasuredTimes::candidates(const Work& work) {
  const Bucket& bucket = options_.call.bucket;
  return promising(work, {&options_.program.device, options_.program.dtype, bucket.rows, bucket.texts, bucket.longest});
}

std::optional<double> MeasuredTimes::measure(const Work& work, const Candidate& candidate) {
  const LoggedTime* known = log_.find(work.text, candidate.setting);
  const LoggedTime* const of_others = log_.find_of_others(work.text, candidate.setting);
  if (known == nullptr && of_others != nullptr && !may_be_wrong(work.node)) known = of_others;
  if (known != nullptr) ++remembered_;
  else known = &asked(work, candidate.setting, of_others);
  if (known->wrong.empty()) return known->us;
  ++wrong_;
  wrong_words_[work.text] = known->wrong;
  return std::nullopt;
}

// Of the device. A time that was taken with other weights holds, once it computes the right thing with these.
const LoggedTime& MeasuredTimes::asked(const Work& work, const std::string& setting, const LoggedTime* of_others) {
  WorkTimer& timer = timer_for(work);
  const WorkOutcome outcome =
      timer.measure(setting, of_others == nullptr ? std::optional(options_.seconds_a_time) : std::nullopt);
  const bool holds = of_others != nullptr && outcome.wrong.empty();
  LoggedTime time = holds ? *of_others
                          : LoggedTime{.us = outcome.time.us,
                                       .spread = outcome.time.spread,
                                       .runs = outcome.time.runs,
                                       .wrong = outcome.wrong,
                                       .when = now_utc()};
  time.error = outcome.error;
  ++(holds ? remembered_ : measured_);
  compared_ += holds ? 1 : 0;
  if (outcome.lasting) log_.add(work.text, setting, time);
  else log_.add_unkept(work.text, setting, time);
  return *log_.find(work.text, setting);
}

std::string MeasuredTimes::wrong_with(const std::string& work) const {
  const auto said = wrong_words_.find(work);
  return said == wrong_words_.end() ? Oracle::wrong_with(work) : said->second;
}

bool MeasuredTimes::has_time() { return options_.budget_seconds <= 0 || watch_.seconds() < options_.budget_seconds; }

double MeasuredTimes::held_bytes() const {
  double sum = 0;
  for (const Held& held : timers_) sum += held.bytes;
  return sum;
}

void MeasuredTimes::release() { timers_.clear(); }

WorkTimer& MeasuredTimes::timer_for(const Work& work) {
  const auto found =
      std::find_if(timers_.begin(), timers_.end(), [&](const Held& held) { return held.work == work.text; });
  if (found != timers_.end()) {
    timers_.splice(timers_.begin(), timers_, found);
    return *timers_.front().timer;
  }
  const double bytes = static_cast<double>(timing_bytes(work, options_.program.dtype, options_.call.bucket.rows));
  const auto is_full = [&] {
    const bool is_too_much = options_.most_bytes > 0 && held_bytes() + bytes > options_.most_bytes;
    return is_too_much || timers_.size() >= kMostTimers;
  };
  while (!timers_.empty() && is_full()) timers_.pop_back();
  timers_.push_front({work.text, bytes, std::make_unique<WorkTimer>(work, options_.program, options_.call)});
  return *timers_.front().timer;
}

}  // namespace stof
