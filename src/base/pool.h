// SPDX-License-Identifier: Apache-2.0
// Objects that calls need for themselves while they run, kept for later calls: as many as ran at the same time.
#pragma once
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace stof {

template <class Object>
class Pool {
 public:
  // One object, as an earlier lease left it or new, until the lease ends.
  class Lease {
   public:
    explicit Lease(Pool& pool) : pool_(pool) {
      const std::lock_guard lock(pool.mutex_);
      if (!pool.free_.empty()) {
        object_ = std::move(pool.free_.back());
        pool.free_.pop_back();
        return;
      }
      pool.free_.reserve(pool.made_ + 1);  // room for all that were made, so that returning one cannot fail
      object_ = std::make_unique<Object>();
      ++pool.made_;
    }
    ~Lease() {
      const std::lock_guard lock(pool_.mutex_);
      pool_.free_.push_back(std::move(object_));
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Object& operator*() const { return *object_; }

   private:
    Pool& pool_;
    std::unique_ptr<Object> object_;
  };

 private:
  std::mutex mutex_;
  std::size_t made_ = 0;
  std::vector<std::unique_ptr<Object>> free_;
};

}  // namespace stof
