// SPDX-License-Identifier: Apache-2.0
#include "src/base/interrupt.h"

namespace stof {
namespace {

constexpr std::chrono::milliseconds kBetween(50);

Interruptible*& innermost() {
  thread_local Interruptible* of_thread = nullptr;
  return of_thread;
}

}  // namespace

Interruptible::Interruptible(Ask ask, void* user)
    : ask_(ask), user_(user), asked_(std::chrono::steady_clock::now()), outer_(innermost()) {
  innermost() = this;
}

Interruptible::~Interruptible() { innermost() = outer_; }

void Interruptible::check() {
  if (ask_ == nullptr || std::chrono::steady_clock::now() - asked_ < kBetween) return;
  const bool ends = ask_(user_) != 0;
  asked_ = std::chrono::steady_clock::now();  // what was done in between does not count
  if (ends) throw Interrupted();
}

void check_interrupt() {
  if (Interruptible* const asking = innermost()) asking->check();
}

}  // namespace stof
