// SPDX-License-Identifier: Apache-2.0
// Weights as a device reads them, made once however many programs of a model there are.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace stof {

class WeightStore {
 public:
  std::shared_ptr<const void> find_or_make(const std::string& key,
                                           const std::function<std::shared_ptr<const void>()>& make) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<const void>& kept = kept_[key];
    if (!kept) kept = make();
    return kept;
  }
  std::size_t size() const { return kept_.size(); }

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const void>> kept_;
};

}  // namespace stof
