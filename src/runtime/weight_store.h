// SPDX-License-Identifier: Apache-2.0
// Weights as a device reads them, made once for all programs of a model that ask for them by the same key. Some hold
// others: a packed linear its matrix, which linears with other epilogues hold as well.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace stof {

class WeightStore {
 public:
  // `make` does not ask the store.
  std::shared_ptr<const void> find_or_make(const std::string& key,
                                           const std::function<std::shared_ptr<const void>()>& make) {
    const std::lock_guard lock(mutex_);
    if (const auto kept = kept_.find(key); kept != kept_.end()) return kept->second;
    return kept_.emplace(key, make()).first->second;
  }
  // What a program has left behind that could not be made whole, and then what that alone has held.
  void drop_unused() {
    const std::lock_guard lock(mutex_);
    while (std::erase_if(kept_, [](const auto& entry) { return entry.second.use_count() == 1; }) > 0) continue;
  }
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return kept_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const void>> kept_;
};

}  // namespace stof
