// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/schedule.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace stof::cuda {
namespace {

constexpr double kRoundsFollowed = 20;

// Teams that are done at the same time go together: there are few different times.
class Teams {
 public:
  explicit Teams(double teams) : groups_{{0, teams}} {}

  void take(const SamePieces& same) {
    for (double left = same.count; left > 0;) {
      std::pop_heap(groups_.begin(), groups_.end(), later);
      Group& idle = groups_.back();
      const double busy = std::min(left, idle.teams), until = idle.until + same.cost;
      latest_ = std::max(latest_, until);
      left -= busy;
      idle.teams -= busy;
      if (idle.teams <= 0) idle = {until, busy};
      else {
        std::push_heap(groups_.begin(), groups_.end(), later);
        groups_.push_back({until, busy});
      }
      std::push_heap(groups_.begin(), groups_.end(), later);
    }
  }
  double latest() const { return latest_; }

 private:
  struct Group {
    double until, teams;
  };
  static bool later(const Group& a, const Group& b) { return a.until > b.until; }

  std::vector<Group> groups_;  // a heap: the first is idle first
  double latest_ = 0;
};

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

}  // namespace stof::cuda
