// SPDX-License-Identifier: Apache-2.0
// A thread that plans attention, and waits in the midst of it until it is told to go on.
#pragma once
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "src/backend/contract.h"

namespace stof {

class HeldPlanner {
 public:
  // Of a device with the backend below, and of sizes that were not planned for.
  template <class Plan>
  explicit HeldPlanner(Plan plan) {
    state() = kArmed;
    thread_ = std::thread(std::move(plan));
    while (state() == kArmed) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ~HeldPlanner() {
    if (thread_.joinable()) release();
  }
  HeldPlanner(const HeldPlanner&) = delete;
  HeldPlanner& operator=(const HeldPlanner&) = delete;

  // Whether it has waited until now: whoever waits for it has it go on after ten seconds.
  bool release() {
    const bool waited = state().exchange(kFree) == kWaiting;
    thread_.join();
    return waited;
  }

  static Backend backend(Backend of) {
    of.attention_block_sizes = [](const AttentionShape& shape, std::int64_t alike_heads) {
      int armed = kArmed;
      if (state().compare_exchange_strong(armed, kWaiting)) wait();
      return cpu_backend.attention_block_sizes(shape, alike_heads);
    };
    return of;
  }

 private:
  enum State : int { kFree, kArmed, kWaiting };
  static std::atomic<int>& state() {
    static std::atomic<int> of_all = kFree;
    return of_all;
  }
  static void wait() {
    for (int i = 0; i < 1000 && state() == kWaiting; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    state() = kFree;
  }

  std::thread thread_;
};

}  // namespace stof
