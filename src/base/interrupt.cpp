// SPDX-License-Identifier: Apache-2.0
#include "src/base/interrupt.h"

namespace stof {
namespace {

constexpr std::chrono::milliseconds kBetween(50);

Interruptible*& innermost() {
  thread_local Interruptible* of_thread = nullptr;
  return of_thread;
}

// Whether the thread is in what it asks, whose own work asks nobody: it would ask without end.
bool& is_asking() {
  thread_local bool of_thread = false;
  return of_thread;
}

struct Asking {
  Asking() { is_asking() = true; }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;
  ~Asking() { is_asking() = false; }
};

}  // namespace

Interruptible::Interruptible(Ask ask, void* user)
    : ask_(is_asking() ? nullptr : ask), user_(user), asked_(std::chrono::steady_clock::now()), outer_(innermost()) {
  innermost() = this;
}

Interruptible::~Interruptible() { innermost() = outer_; }

void Interruptible::check() {
  if (ask_ == nullptr || std::chrono::steady_clock::now() - asked_ < kBetween) return;
  const bool ends = [&] {
    const Asking asking;
    return ask_(user_) != 0;
  }();
  asked_ = std::chrono::steady_clock::now();  // what was done in between does not count
  if (ends) throw Interrupted();
}

void check_interrupt() {
  if (Interruptible* const asking = innermost()) asking->check();
}

}  // namespace stof
