// SPDX-License-Identifier: Apache-2.0
// Plans by two sizes, made once and kept as long as this is: those that are known are found while others are made,
// since making measures masks, packs them and brings them to a device.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

namespace stof {

template <class Plans>
class KeptPlans {
 public:
  using Sizes = std::pair<std::int64_t, std::int64_t>;

  // What make() gives, unless they are known. One at a time: the second one may want what the first makes.
  template <class Make>
  const Plans& of(const Sizes& sizes, const Make& make) {
    if (const Plans* known = find(sizes)) return *known;
    const std::lock_guard one_at_a_time(making_);
    if (const Plans* known = find(sizes)) return *known;
    Plans made = make();
    const std::lock_guard lock(mutex_);
    return plans_.emplace(sizes, std::move(made)).first->second;
  }
  // Calls body(sizes, plans) for those that are known, which make() may ask for and body may not.
  template <class Body>
  void for_each(const Body& body) {
    const std::lock_guard lock(mutex_);
    for (const auto& [sizes, plans] : plans_) body(sizes, plans);
  }

 private:
  const Plans* find(const Sizes& sizes) {
    const std::lock_guard lock(mutex_);
    const auto found = plans_.find(sizes);
    return found == plans_.end() ? nullptr : &found->second;
  }

  std::mutex making_;
  std::mutex mutex_;  // taken last, and for a look-up alone
  std::map<Sizes, Plans> plans_;
};

}  // namespace stof
