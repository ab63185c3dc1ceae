// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/contest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "src/backend/contract.h"
#include "src/base/error.h"
#include "src/fusion/fuse.h"
#include "src/runtime/model_weights.h"
#include "src/runtime/timed_call.h"
#include "src/runtime/work_timer.h"
#include "src/tensor/convert.h"

namespace stof {
namespace {

constexpr std::int64_t kComparedRows = 64;
constexpr double kWorthChanging = 0.995;  // of the time of what is simpler: less is noise
constexpr double kNearBest = 1.05;        // of the shortest time of a work by itself
constexpr double kLeastShare = 0.02;      // of the whole, that a work takes
constexpr std::size_t kOthersOfAWork = 2;

// Against the unfused program in the same dtype: rounding that adds up over layers, and no more.
double most_model_error(DType dtype) { return dtype == DType::f32 ? 1e-4 : dtype == DType::f16 ? 2e-2 : 1e-1; }

}  // namespace

std::vector<Change> worth_trying(const SearchResult& found, const SettledScheme& plan,
                                 const std::map<std::string, int>& counts) {
  struct Ranked {
    Change change;
    double share;
  };
  std::vector<Ranked> all;
  for (const auto& [work, setting] : plan.settings) {
    const auto tried = found.tried.find(work);
    if (tried == found.tried.end() || tried->second.empty()) continue;
    const double best = tried->second.front().us, share = counts.at(work) * best;
    if (share < kLeastShare * plan.us) continue;
    std::size_t others = 0;
    for (const SettingTime& other : tried->second)
      if (other.setting != setting && other.us <= kNearBest * best && others++ < kOthersOfAWork)
        all.push_back({{work, other.setting}, share});
  }
  std::stable_sort(all.begin(), all.end(), [](const Ranked& a, const Ranked& b) { return a.share > b.share; });
  std::vector<Change> changes;
  for (Ranked& ranked : all) changes.push_back(std::move(ranked.change));
  return changes;
}

Settings refined(Settings settings, const std::vector<Change>& changes, const TimesOf& times_of,
                 const std::function<void(const std::string&)>& explain) {
  if (changes.empty()) return settings;
  const auto with = [&](const Change& change) {
    Settings changed = settings;
    changed[change.work] = change.setting;
    return changed;
  };
  const auto say = [&](double before, double after, bool kept, const Change& change) {
    if (explain)
      explain(fmt::format("whole   {:9.2f} -> {:9.2f} us  {}  {}: {}", before, after, kept ? "kept  " : "undone",
                          change.work, change.setting));
  };
  std::vector<Settings> all{settings};
  for (const Change& change : changes) all.push_back(with(change));
  const std::vector<double> us = times_of(all);
  std::vector<std::pair<double, const Change*>> faster;
  for (std::size_t i = 0; i < changes.size(); ++i)
    if (us[i + 1] < us[0] * kWorthChanging) faster.emplace_back(us[i + 1], &changes[i]);
    else say(us[0], us[i + 1], false, changes[i]);
  std::stable_sort(faster.begin(), faster.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [alone, change] : faster) {
    const std::array two{settings, with(*change)};
    const std::vector<double> times = times_of(two);
    const bool kept = times[1] < times[0] * kWorthChanging;
    say(times[0], times[1], kept, *change);
    if (kept) settings = two[1];
  }
  return settings;
}

// A program with the memory of a call, whose settings may change.
class Contest::Whole {
 public:
  Whole(const Graph& fused, const ProgramOptions& program, const ContestOptions& options, GrowingMemory& arena)
      : program_(fused, program), call_(program_, options.call, options.vocabulary, &arena) {}

  // The first ones, as they were stored.
  std::vector<float> first_rows() {
    call_.run();
    return rows_of_run(0, std::min(kComparedRows, count()));
  }
  std::vector<float> all_rows() {
    call_.run();
    return rows_of_run(0, count());
  }
  // Of what was run last.
  std::vector<float> rows_of_run(std::int64_t first, std::int64_t rows) {
    const std::int64_t columns = program_.result_columns(),
                       row_bytes = columns * static_cast<std::int64_t>(size_of(program_.dtype()));
    std::vector<std::byte> bytes = call_.read(program_.result(), first * row_bytes, rows * row_bytes);
    const Tensor exact = converted(view_of(bytes.data(), program_.dtype(), {rows, columns}), DType::f32);
    return {exact.as<float>(), exact.as<float>() + exact.size()};
  }
  void run() { call_.run(); }
  std::int64_t count() const { return call_.rows(); }
  OneTime timer() { return call_.timer(); }
  // Of the program with these settings. The host has them still to set when it is timed.
  OneTime timer(const Settings& settings) {
    use(settings);
    OneTime time = call_.timer();
    if (!call_.is_on_host()) return time;
    return [this, settings, time] {
      use(settings);
      return time();
    };
  }
  void use(const Settings& settings) {
    for (const auto& [work, setting] : settings) program_.use(work, matmul_setting_of(setting));
  }
  const TimedCall& call() const { return call_; }
  std::int64_t arena_bytes(std::int64_t rows) const { return program_.arena_bytes(rows); }

 private:
  Program program_;
  TimedCall call_;
};

Contest::Contest(const Blocks& blocks, ContestOptions options)
    : blocks_(blocks), options_(std::move(options)), want_(unfused()) {
  if (const std::string why_not = why_not_finite(want_, fuse(blocks_, detached_scheme(blocks_))); !why_not.empty())
    fail(ErrorKind::unsupported, "the unfused model computes {}; accepted: finite numbers", why_not);
}
Contest::~Contest() = default;

ProgramOptions Contest::plain(DType dtype) const {
  ProgramOptions plain = options_.program;
  plain.dtype = dtype;
  if (dtype != options_.program.dtype) plain.weights = std::make_shared<WeightStore>();
  return plain;
}

std::vector<float> Contest::unfused() const {
  return Whole(fuse(blocks_, detached_scheme(blocks_)), plain(options_.program.dtype), options_, arena_).first_rows();
}

ProgramOptions Contest::with(const Settings& settings) const {
  ProgramOptions program = options_.program;
  for (const auto& [work, setting] : settings) program.settings[work] = matmul_setting_of(setting);
  return program;
}

Contest::Entry Contest::made(const Contender& contender) const {
  for (const Entry& known : entered_)
    if (known.contender.scheme == contender.scheme && known.contender.settings == contender.settings) {
      Entry entry = known;
      entry.contender = contender;
      return entry;
    }
  Entry entry{
      .contender = contender,
      .whole = std::make_shared<Whole>(fuse(blocks_, contender.scheme), with(contender.settings), options_, arena_),
      .rows = {}};
  entry.rows = entry.whole->first_rows();
  entry.error = relative_difference(entry.rows, want_);
  return entry;
}

void Contest::enter(const Contender& contender) {
  entered_.push_back(made(contender));
  const double error = entered_.back().error;  // NaN, too, where nothing has a better one
  if (contender.may_win && (error < least_error_ || !std::isfinite(least_error_))) least_error_ = error;
}

// Spreads are those of the times as they were.
std::vector<CallTime> Contest::in_turns(const Whole& of, std::span<const OneTime> rivals, Turns turns) {
  const bool on_host = of.call().is_on_host();
  if (on_host) turns.window_seconds = 0;
  const std::vector<std::vector<double>> times = times_in_turns(rivals, turns), even = without_drift(times);
  std::vector<CallTime> summed_up;
  for (std::size_t i = 0; i < times.size(); ++i) {
    summed_up.push_back(of.call().summed_up(times[i]));
    if (!on_host) summed_up.back().us = call_time_of(even[i]).us;
  }
  return summed_up;
}

bool Contest::is_right(const Entry& entry) const {
  return entry.contender.may_win && entry.error <= most_model_error(options_.program.dtype);
}

bool Contest::has_right() const {
  return std::any_of(entered_.begin(), entered_.end(), [this](const Entry& entry) { return is_right(entry); });
}

void Contest::note(const Entry& entry) {
  times_.push_back({.what = entry.contender.what,
                    .scheme = entry.contender.scheme.text(),
                    .us = entry.time.us,
                    .spread = entry.time.spread,
                    .error = entry.error,
                    .runs = entry.time.runs});
}

void Contest::take(Entry&& entry) {
  arena_bytes_ = entry.whole->arena_bytes(options_.call.bucket.rows);
  winner_ = std::move(entry);
}

void Contest::race() {
  if (entered_.empty()) return;
  std::vector<OneTime> rivals;
  std::map<const Whole*, std::size_t> turn_of;
  for (const Entry& entry : entered_)
    if (turn_of.try_emplace(entry.whole.get(), rivals.size()).second) rivals.push_back(entry.whole->timer());
  const Turns turns = options_.has_time()
                          ? Turns{.seconds = options_.seconds, .window_seconds = options_.window_seconds}
                          : Turns{.seconds = 0, .least_rounds = 1};
  const std::vector<CallTime> times = in_turns(*entered_.front().whole, rivals, turns);
  rivals.clear();  // they borrow from those that lose
  for (Entry& entry : entered_) {
    entry.time = times[turn_of.at(entry.whole.get())];
    note(entry);
    if (is_right(entry) && (!winner_ || entry.time.us < winner_->time.us * kWorthChanging)) take(std::move(entry));
    else entry.whole.reset();
  }
  entered_.clear();
}

void Contest::refine(const std::string& what, const std::vector<Change>& changes) {
  if (changes.empty()) return;
  const Contender before = winner();
  Whole& whole = *winner_->whole;
  std::vector<CallTime> last;
  const auto times_of = [&](std::span<const Settings> settings) {
    std::vector<OneTime> rivals;
    for (const Settings& one : settings) rivals.push_back(whole.timer(one));
    last = in_turns(whole, rivals, {.seconds = options_.seconds_a_change});
    std::vector<double> us;
    for (const CallTime& time : last) us.push_back(time.us);
    return us;
  };
  Contender changed = before;
  changed.what = what;
  changed.settings = refined(before.settings, changes, times_of, options_.explain);
  if (changed.settings == before.settings) return;
  const std::array both{before.settings, changed.settings};
  times_of(both);
  whole.use(changed.settings);
  Entry entry{.contender = changed, .whole = nullptr, .rows = whole.first_rows()};
  entry.error = relative_difference(entry.rows, want_);
  entry.time = last[1];
  entry.time.us = winner_->time.us * last[1].us / last[0].us;
  note(entry);
  if (!is_right(entry) || !(entry.time.us < winner_->time.us * kWorthChanging)) return;
  entry.whole = std::move(winner_->whole);
  take(std::move(entry));
}

const Contender& Contest::winner() const {
  if (!winner_)
    fail(ErrorKind::unsupported,
         "no plan computes what the unfused model does: the best is off by {:.1e}; accepted: {:.0e}", least_error_,
         most_model_error(options_.program.dtype));
  return winner_->contender;
}

RowErrors Contest::error_against_f32() const {
  constexpr std::int64_t kRowsAtATime = 4096;  // of those in f32
  Whole& whole = *winner_->whole;
  whole.use(winner_->contender.settings);  // changes that did not win were timed with it
  const std::vector<float> got = whole.all_rows();
  Whole exact(fuse(blocks_, detached_scheme(blocks_)), plain(DType::f32), options_, arena_);
  exact.run();
  RowDistances distances(std::ssize(got) / whole.count());
  std::size_t compared = 0;
  for (std::int64_t first = 0; first < exact.count(); first += kRowsAtATime) {
    const std::vector<float> want = exact.rows_of_run(first, std::min(kRowsAtATime, exact.count() - first));
    distances.add(std::span(got).subspan(compared, want.size()), want);
    compared += want.size();
  }
  return distances.errors();
}

}  // namespace stof
