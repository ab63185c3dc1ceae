// SPDX-License-Identifier: Apache-2.0
// A way out of work that may take long: who called the library is asked, now and then, whether it is to end.
#pragma once
#include <chrono>
#include <cstdint>
#include <exception>

namespace stof {

// No Error: who makes do without a plan that cannot be made is not to go on here.
struct Interrupted : std::exception {
  const char* what() const noexcept override { return "interrupted"; }
};

// While it lives, the calling thread's work asks, but for what is done by whom it asks. One inside another takes its
// place until that one's end.
class Interruptible {
 public:
  using Ask = std::int32_t (*)(void* user);  // not 0: end

  Interruptible(Ask ask, void* user);  // null: nobody is asked
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
  ~Interruptible();

  void check();

 private:
  Ask ask_;
  void* user_;
  std::chrono::steady_clock::time_point asked_;
  Interruptible* const outer_;
};

// For loops whose steps take less than a moment: asks where that was not done for 50 ms, and throws Interrupted.
void check_interrupt();

}  // namespace stof
