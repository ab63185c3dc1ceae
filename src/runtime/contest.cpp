// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/contest.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/backend/contract.h"
#include "src/base/error.h"
#include "src/fusion/fuse.h"
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

Settings refined(Settings settings, const std::vector<Change>& changes,
                 const std::function<double(const Settings&)>& us,
                 const std::function<void(const std::string&)>& explain) {
  double before = changes.empty() ? 0 : us(settings);
  for (const Change& change : changes) {
    Settings changed = settings;
    changed[change.work] = change.setting;
    double after = us(changed);
    const double first = after;
    bool kept = after < before * kWorthChanging;
    if (kept) {
      before = us(settings);
      after = us(changed);
      kept = after < before * kWorthChanging && first < before * kWorthChanging;
    }
    if (explain)
      explain(fmt::format("whole   {:9.2f} -> {:9.2f} us  {}  {}: {}", before, after, kept ? "kept  " : "undone",
                          change.work, change.setting));
    if (!kept) continue;
    settings = std::move(changed);
    before = after;
  }
  return settings;
}

// A program with the memory of a call, whose settings may change.
class Contest::Whole {
 public:
  Whole(const Graph& fused, const ProgramOptions& program, const ContestOptions& options)
      : program_(fused, program), call_(program_, options.bucket, options.vocabulary) {
    call_.run();
  }

  // The first ones, as they were stored.
  std::vector<float> rows() {
    const std::int64_t rows = std::min(kComparedRows, call_.rows()), columns = program_.result_columns();
    std::vector<std::byte> bytes =
        call_.read(program_.result(), 0, rows * columns * static_cast<std::int64_t>(size_of(program_.dtype())));
    const Tensor exact = converted(view_of(bytes.data(), program_.dtype(), {rows, columns}), DType::f32);
    return {exact.as<float>(), exact.as<float>() + exact.size()};
  }
  CallTime time(double seconds) { return call_.time(Caches::warm, seconds); }
  void use(const Settings& settings) {
    for (const auto& [work, setting] : settings) program_.use(work, matmul_setting_of(setting));
  }
  std::int64_t arena_bytes(std::int64_t rows) const { return program_.arena_bytes(rows); }

 private:
  Program program_;
  TimedCall call_;
};

Contest::Contest(const Blocks& blocks, ContestOptions options)
    : blocks_(blocks), options_(std::move(options)), want_(unfused(options_.program.dtype)) {}

std::vector<float> Contest::unfused(DType dtype) const {
  ProgramOptions plain = options_.program;
  plain.dtype = dtype;
  if (dtype != options_.program.dtype) plain.weights = std::make_shared<WeightStore>();
  return Whole(fuse(blocks_, detached_scheme(blocks_)), plain, options_).rows();
}

ProgramOptions Contest::with(const Settings& settings) const {
  ProgramOptions program = options_.program;
  for (const auto& [work, setting] : settings) program.settings[work] = matmul_setting_of(setting);
  return program;
}

void Contest::enter(const Contender& contender) {
  Whole whole(fuse(blocks_, contender.scheme), with(contender.settings), options_);
  std::vector<float> rows = whole.rows();
  const CallTime time = whole.time(options_.seconds);
  const double error = relative_difference(rows, want_);
  times_.push_back({.what = contender.what,
                    .scheme = contender.scheme.text(),
                    .us = time.us,
                    .spread = time.spread,
                    .error = error,
                    .runs = time.runs});
  if (!contender.may_win) return;
  least_error_ = std::min(least_error_, error);
  const bool right = error <= most_model_error(options_.program.dtype);
  if (!right || (winner_ && time.us >= least_ * kWorthChanging)) return;
  winner_ = contender;
  least_ = time.us;
  rows_ = std::move(rows);
  arena_bytes_ = whole.arena_bytes(options_.bucket.rows);
}

void Contest::refine(const std::string& what, const std::vector<Change>& changes) {
  if (changes.empty()) return;
  Contender changed = winner();
  {
    Whole whole(fuse(blocks_, changed.scheme), with(changed.settings), options_);
    const auto us = [&](const Settings& settings) {
      whole.use(settings);
      return whole.time(options_.seconds_a_change).us;
    };
    changed.settings = refined(changed.settings, changes, us, options_.explain);
  }
  if (changed.settings == winner().settings) return;
  changed.what = what;
  enter(changed);
}

const Contender& Contest::winner() const {
  if (!winner_)
    fail(ErrorKind::internal, "no plan computes what the unfused model does: the best is off by {:.1e}", least_error_);
  return *winner_;
}

double Contest::error_against_f32() const { return relative_difference(rows_, unfused(DType::f32)); }

}  // namespace stof
