// SPDX-License-Identifier: Apache-2.0
// Arenas for calls that run at the same time. A call takes one that is free, or makes one; steady work allocates
// nothing.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "stof/tensor.h"

namespace stof {

class ArenaPool {
 public:
  // Memory of one call, given back when it goes.
  class Lease {
   public:
    Lease(ArenaPool& pool, Tensor memory) : pool_(&pool), memory_(std::move(memory)) {}
    ~Lease() {
      if (memory_.data()) pool_->give_back(std::move(memory_));
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    std::byte* data() const { return static_cast<std::byte*>(memory_.data()); }

   private:
    ArenaPool* pool_;
    Tensor memory_;
  };

  // At least `bytes`, zeroed when it is new: rows past a call's own hold finite values.
  Lease take(std::int64_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      const auto fits =
          std::find_if(free_.begin(), free_.end(), [&](const Tensor& memory) { return memory.size() >= bytes; });
      if (fits != free_.end()) {
        Tensor memory = std::move(*fits);
        free_.erase(fits);
        return {*this, std::move(memory)};
      }
      if (!free_.empty()) {  // too small for this call: the new one replaces it
        held_ -= free_.back().size();
        free_.pop_back();
      }
    }
    Tensor memory(DType::boolean, {bytes});
    held_ += bytes;
    if (bytes > 0) std::memset(memory.data(), 0, memory.bytes());
    return {*this, std::move(memory)};
  }

  // Of every arena, taken or free.
  std::int64_t bytes_held() const { return held_; }

 private:
  void give_back(Tensor memory) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(memory));
  }

  std::mutex mutex_;
  std::atomic<std::int64_t> held_ = 0;
  std::vector<Tensor> free_;
};

}  // namespace stof
