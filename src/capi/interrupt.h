// SPDX-License-Identifier: Apache-2.0
// Calls that plan, and who is asked meanwhile whether they are to end.
#pragma once
#include "src/base/interrupt.h"
#include "src/capi/boundary.h"

namespace stof::capi {

struct Interrupt {
  Interruptible::Ask ask = nullptr;
  void* user = nullptr;
};

Interrupt& interrupt_of_thread();

template <class Work>
stof_status guarded_planning(const Work& work) noexcept {
  return guarded([&] {
    const Interrupt& asked = interrupt_of_thread();
    const Interruptible interruptible(asked.ask, asked.user);
    work();
  });
}

}  // namespace stof::capi
