// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/schedule.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace stof::cuda {
namespace {

constexpr double kRoundsFollowed = 20;

// Teams that are done at the same time go together: there are few different times.
class Teams {
 public:
  explicit Teams(double teams) {
    groups_.reserve(kUsualGroups);
    groups_.push_back({0, teams});
  }

  void take(const SamePieces& same) {
    for (double left = same.count; left > 0;) {
      Group& idle = groups_[first_];
      const double busy = std::min(left, idle.teams), until = idle.until + same.cost;
      latest_ = std::max(latest_, until);
      left -= busy;
      idle.teams -= busy;
      if (idle.teams <= 0) ++first_;
      add({until, busy});
    }
  }
  double latest() const { return latest_; }

 private:
  static constexpr std::size_t kUsualGroups = 512;
  struct Group {
    double until, teams;
  };

  // The costliest pieces were taken before: most groups that are added are among the last to be idle.
  void add(const Group& group) {
    if (first_ == groups_.size()) groups_.clear(), first_ = 0;
    std::size_t at = groups_.size();
    groups_.push_back(group);
    for (; at > first_ && groups_[at - 1].until > group.until; --at) groups_[at] = groups_[at - 1];
    groups_[at] = group;
  }

  std::vector<Group> groups_;  // from first_ on, ascending: the first is idle first
  std::size_t first_ = 0;
  double latest_ = 0;
};

// Of pieces that begin at once on one multiprocessor with so many teams, ascending by cost.
double shared(std::span<const double> costs, int teams, double alone) {
  double us = 0, done = 0;
  for (auto others = static_cast<double>(costs.size()); const double cost : costs) {
    others -= 1;
    us += (cost - done) * (teams > 1 ? alone + (1 - alone) * others / (teams - 1) : 1);
    done = cost;
  }
  return us;
}

}  // namespace

double makespan(std::span<const SamePieces> pieces, double teams) {
  double total = 0, count = 0, bound = 0;
  for (const SamePieces& same : pieces) {
    total += same.cost * same.count;
    // Of the costliest n * teams + 1 pieces some team has n + 1.
    const double rounds = std::floor((count + same.count - 1) / teams);
    if (count == 0 || rounds * teams >= count) bound = std::max(bound, (std::max(rounds, 0.0) + 1) * same.cost);
    count += same.count;
  }
  if (count > kRoundsFollowed * teams) return std::max(total / teams, bound);
  Teams followed(teams);
  for (const SamePieces& same : pieces) followed.take(same);
  return followed.latest();
}

double most_makespan(std::span<const SamePieces> pieces, double teams) {
  constexpr double kRounding = 1 + 1e-9;  // of sums, and of teams that are split where counts are not whole
  double total = 0;
  for (const SamePieces& same : pieces) total += same.cost * same.count;
  // When the last piece to end began, nobody was idle: what was begun before kept all teams busy until then.
  return pieces.empty() ? 0 : kRounding * (total / teams + pieces.front().cost);
}

double makespan_dealt(std::span<const SamePieces> pieces, double teams) {
  // The cost of the piece at a place of the order.
  const auto cost_at = [&](double place) {
    for (const SamePieces& same : pieces) {
      if (place < same.count) return same.cost;
      place -= same.count;
    }
    return 0.0;
  };
  double latest = 0, before = 0;
  for (const SamePieces& same : pieces) {
    if (before >= teams) break;
    before += same.count;
    // Of equal pieces the last one's team comes first in the second round.
    latest = std::max(latest, same.cost + cost_at(2 * teams - std::min(before, teams)));
  }
  return latest;
}

double makespan_of_one_round(std::span<const SamePieces> pieces, const Crew& crew, double alone) {
  std::vector<int> ends;  // of places with one cost
  double before = 0;
  for (const SamePieces& same : pieces) ends.push_back(static_cast<int>(std::lround(before += same.count)));
  const int ctas = ends.empty() ? 0 : std::min(ends.back(), crew.multiprocessors * crew.ctas);
  const int multiprocessors = std::min(crew.multiprocessors, ctas);
  double latest = 0;
  std::vector<double> here;
  for (int first = 0, next = 0; first < multiprocessors; first = next) {
    here.clear();
    next = multiprocessors;  // the first one that has other costs
    for (int team = 0; team < crew.teams; ++team)
      for (int cta = first; cta < ctas; cta += crew.multiprocessors) {
        const bool backwards = team % 2 != 0;
        const int place = team * ctas + (backwards ? ctas - 1 - cta : cta);
        const auto same = static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), place) - ends.begin());
        if (same < ends.size()) here.push_back(pieces[same].cost);
        const int begin = same > 0 ? ends[same - 1] : 0, end = same < ends.size() ? ends[same] : place + ctas;
        next = std::min({next, first + ctas - cta, first + (backwards ? place - begin + 1 : end - place)});
      }
    std::sort(here.begin(), here.end());
    latest = std::max(latest, shared(here, crew.ctas * crew.teams, alone));
  }
  return latest;
}

}  // namespace stof::cuda
