// SPDX-License-Identifier: Apache-2.0
#include "src/capi/interrupt.h"

namespace stof::capi {

Interrupt& interrupt_of_thread() {
  thread_local Interrupt of_thread;
  return of_thread;
}

}  // namespace stof::capi

void stof_set_interrupt(int32_t (*ask)(void* user), void* user) { stof::capi::interrupt_of_thread() = {ask, user}; }
