// SPDX-License-Identifier: Apache-2.0
// When teams are done that take pieces of work from a queue, many of which are alike. Needs no memory: who is done at
// nearly the same time is kept as one.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>

namespace stof::cuda {

class TeamTimes {
 public:
  explicit TeamTimes(double teams) { groups_[count_++] = {0, teams}; }

  // The next pieces of the queue, so many of so many us each. Who is done first takes one.
  void take(double pieces, double us) {
    while (pieces > 0) {
      const Group first = groups_[0];
      const double taken = std::min(pieces, first.teams);
      if (taken < first.teams) groups_[0].teams -= taken;
      else remove_first();
      add({first.at + us, taken});
      pieces -= taken;
    }
  }

  double last() const { return groups_[count_ - 1].at; }

 private:
  struct Group {
    double at, teams;
  };
  static constexpr std::size_t kMost = 24;

  void remove_first() {
    std::move(groups_.begin() + 1, groups_.begin() + static_cast<std::ptrdiff_t>(count_--), groups_.begin());
  }

  void add(Group added) {
    if (count_ == kMost) join_nearest();
    const auto end = groups_.begin() + static_cast<std::ptrdiff_t>(count_);
    const auto place = std::find_if(groups_.begin(), end, [&](const Group& group) { return group.at >= added.at; });
    if (place != end && place->at == added.at) {
      place->teams += added.teams;
      return;
    }
    std::move_backward(place, end, end + 1);
    *place = added;
    ++count_;
  }

  // The last of all stays by itself.
  void join_nearest() {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 2 < count_; ++i)
      if (groups_[i + 1].at - groups_[i].at < groups_[best + 1].at - groups_[best].at) best = i;
    const Group &a = groups_[best], &b = groups_[best + 1];
    const double teams = a.teams + b.teams;
    groups_[best] = {(a.at * a.teams + b.at * b.teams) / teams, teams};
    const auto next = groups_.begin() + static_cast<std::ptrdiff_t>(best) + 1;
    std::move(next + 1, groups_.begin() + static_cast<std::ptrdiff_t>(count_--), next);
  }

  std::array<Group, kMost> groups_ = {};
  std::size_t count_ = 0;
};

}  // namespace stof::cuda
