// SPDX-License-Identifier: Apache-2.0
// Stage 1 changes the scheme move by move; stage 2 tries settings of its works where that has paid.
#include "src/fusion/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "src/base/error.h"
#include "src/base/hash.h"
#include "src/fusion/moves.h"
#include "src/fusion/print.h"
#include "src/fusion/scheme_costs.h"

namespace stof {
namespace {

constexpr std::size_t kMostRivals = 2;

class Search {
 public:
  Search(const Blocks& blocks, Oracle& oracle, const SearchOptions& options)
      : blocks_(blocks), oracle_(oracle), options_(options), costs_(blocks, oracle, options), random_(options.seed) {}

  SearchResult run(std::span<const Scheme> starts) {
    begin(starts);
    if (options_.change_scheme) expand();
    if (oracle_.has_time()) sample();
    result_.finished = oracle_.has_time();
    static_cast<SettledScheme&>(result_) = settled(result_.scheme);
    STOF_CHECK(std::isfinite(result_.us));
    for (const auto& [work, count] : costs_.counts_of(result_.scheme)) result_.works[work] = costs_.tried(work).us;
    if (result_.finished) find_rivals(starts);
    return std::move(result_);
  }

 private:
  void say(const std::string& text) const {
    if (options_.explain) options_.explain(text);
  }

  // Everything that it has was tried.
  SettledScheme settled(const Scheme& scheme) {
    SettledScheme result{.scheme = scheme, .settings = {}, .us = costs_.of(scheme)};
    for (const auto& [work, count] : costs_.counts_of(scheme)) {
      const SchemeCosts::Tried& tried = costs_.tried(work);
      if (!tried.is_choice) continue;
      result.settings[work] = tried.best;
      std::vector<SettingTime>& times = result_.tried[work] = tried.right;
      std::stable_sort(times.begin(), times.end(),
                       [](const SettingTime& a, const SettingTime& b) { return a.us < b.us; });
    }
    return result;
  }

  void find_rivals(std::span<const Scheme> starts) {
    std::set<std::string> seen{result_.scheme.text()};
    for (const Scheme& start : starts)
      if (seen.insert(start.text()).second && costs_.of(start) <= result_.us * (1 + options_.near))
        result_.rivals.push_back(settled(start));
    std::stable_sort(result_.rivals.begin(), result_.rivals.end(),
                     [](const SettledScheme& a, const SettledScheme& b) { return a.us < b.us; });
    result_.rivals.resize(std::min(result_.rivals.size(), kMostRivals));
  }

  void begin(std::span<const Scheme> starts) {
    double best = std::numeric_limits<double>::infinity();
    for (const Scheme& scheme : starts) {
      if (!seen_.insert(scheme.text()).second) continue;
      if (std::isfinite(best) && !oracle_.has_time()) break;
      const double us = costs_.of(scheme);
      say(fmt::format("start   {:9.2f} us  {}", us, scheme.text()));
      if (us < best) {
        best = us;
        result_.scheme = scheme;
      }
    }
    if (!std::isfinite(best)) refuse(starts.front());
  }

  [[noreturn]] void refuse(const Scheme& scheme) {
    std::string wrong;
    for (const auto& [work, count] : costs_.counts_of(scheme))
      if (wrong.empty() && !std::isfinite(costs_.tried(work).us))
        wrong = fmt::format("no setting of '{}' is right: {}", work, oracle_.wrong_with(work));
    fail(ErrorKind::unsupported, "{}", wrong);
  }

  // Depth first: after a move that was kept the moves of what it made are next, from the same segment on.
  void expand() {
    for (std::size_t kind = 0; kind < blocks_.kinds().size(); ++kind)
      while (const std::optional<Move> kept = first_gain(kind)) {
        result_.scheme.bits[kind] = kept->bits;
        ++result_.moves_kept;
      }
  }

  std::optional<Move> first_gain(std::size_t kind) {
    for (const Move& move : moves_of(blocks_, kind, result_.scheme.bits[kind])) {
      if (!oracle_.has_time()) return std::nullopt;
      Scheme changed = result_.scheme;
      changed.bits[kind] = move.bits;
      if (!seen_.insert(changed.text()).second) continue;
      const double before = costs_.of(result_.scheme), after = costs_.of(changed);
      const bool kept = after < before * (1 - options_.least_gain);
      ++result_.moves_tried;
      say(fmt::format("{:7} {:9.2f} -> {:9.2f} us  {}  {} {}", move.name, before, after, kept ? "kept  " : "undone",
                      brackets(blocks_, kind, move.from), changed.text()));
      if (kept) return move;
    }
    return std::nullopt;
  }

  // What settings of a work can still be tried for, and what the last round of it brought.
  struct Share {
    std::string work;
    int count;      // in the model
    double reward;  // us of the whole
  };

  void sample() {
    std::vector<Share> shares;
    for (const auto& [work, count] : costs_.counts_of(result_.scheme))
      if (costs_.tried(work).is_choice) shares.push_back({work, count, 1});
    for (int round = 0; round < options_.most_rounds; ++round) {
      std::erase_if(shares, [&](const Share& share) { return costs_.tried(share.work).left.empty(); });
      if (shares.empty() || !oracle_.has_time()) return;
      ++result_.rounds;
      if (!sample_round(shares, round) && round > 0) return;
    }
  }

  // True when something was gained. Equal shares first; then by reward, and something for everybody: what has brought
  // nothing so far may still.
  bool sample_round(std::vector<Share>& shares, int round) {
    const double total = std::accumulate(shares.begin(), shares.end(), 0.0,
                                         [](double sum, const Share& share) { return sum + share.reward; });
    double gained = 0;
    for (Share& share : shares) {
      const double part = round == 0 || total == 0 ? 1 / static_cast<double>(shares.size()) : share.reward / total;
      const int samples = std::max(1, static_cast<int>(std::lround(part * options_.round)));
      const double before = costs_.tried(share.work).us;
      for (int s = 0; s < samples && !costs_.tried(share.work).left.empty(); ++s) {
        if (!oracle_.has_time()) return gained > 0;
        costs_.try_one(share.work, drawn(costs_.tried(share.work).left));
      }
      const double after = costs_.tried(share.work).us;
      share.reward = share.count * (before - after);
      gained += share.reward;
      if (after < before)
        say(fmt::format("round {} {:9.2f} -> {:9.2f} us  {}: {}", round + 1, before, after, share.work,
                        costs_.tried(share.work).best));
    }
    return gained > 0;
  }

  // Mostly the shortest prediction, now and then any.
  std::size_t drawn(const std::vector<Candidate>& left) {
    const std::uint64_t draw = random_ = splitmix64(random_ + 0x9E3779B97F4A7C15ull);
    return draw % 4 != 0 ? 0 : (draw >> 8) % left.size();
  }

  const Blocks& blocks_;
  Oracle& oracle_;
  const SearchOptions& options_;
  SchemeCosts costs_;
  std::uint64_t random_;
  std::set<std::string> seen_;
  SearchResult result_;
};

}  // namespace

SearchResult search(const Blocks& blocks, std::span<const Scheme> starts, Oracle& oracle,
                    const SearchOptions& options) {
  return Search(blocks, oracle, options).run(starts);
}

}  // namespace stof
