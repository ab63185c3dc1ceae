// SPDX-License-Identifier: Apache-2.0
// Plans for lengths other than the planned ones, each made from one of the first plans.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "src/attention/planned.h"
#include "src/base/error.h"

namespace stof {

// What was prepared stays; what runs have made gives way, all of it, once there is too much. Not thread-safe.
class OtherPlans {
 public:
  using Lengths = std::pair<std::int64_t, std::int64_t>;  // queries, keys
  using Plan = std::shared_ptr<const Planned>;
  // Pairs of lengths that may be prepared, and plans that runs may make of others.
  static constexpr std::size_t kMost = 256;

  // Null: there is none.
  Plan find(const Lengths& lengths, const Plan& base) const {
    const auto found = plans_.find({lengths, base});
    return found == plans_.end() ? nullptr : found->second;
  }

  // Of lengths that are not prepared: made by a run.
  void add(const Lengths& lengths, const Plan& base, Plan made) {
    if (!prepared_.contains(lengths) && made_by_runs() >= kMost)
      std::erase_if(plans_, [this](const auto& entry) { return !prepared_.contains(entry.first.first); });
    plans_.emplace(std::pair(lengths, base), std::move(made));
  }

  void check_room(const Lengths& lengths) const {
    if (!prepared_.contains(lengths) && prepared_.size() >= kMost)
      fail(ErrorKind::unsupported, "attention: {} pairs of lengths are prepared, the most that there can be", kMost);
  }
  // The lengths' plans stay from here on, those that runs have made too, and those that come.
  void keep(const Lengths& lengths) { prepared_.insert(lengths); }

  template <class Function>
  void for_each_prepared(const Function& function) const {
    for (const Lengths& lengths : prepared_) function(lengths);
  }
  template <class Function>
  void for_each(const Function& function) const {
    for (const auto& [which, plan] : plans_) function(*plan);
  }

 private:
  std::size_t made_by_runs() const {
    std::size_t count = 0;
    for (const auto& [which, plan] : plans_) count += prepared_.contains(which.first) ? 0 : 1;
    return count;
  }

  std::map<std::pair<Lengths, Plan>, Plan> plans_;  // made from the plan in the key
  std::set<Lengths> prepared_;
};

}  // namespace stof
