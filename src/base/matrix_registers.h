// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace stof {

// Whether the processor has matrix registers that multiply bf16 (AMX), and the system lets this process use them: Linux
// wants to be asked, since every thread's saved state grows by them. Asked once; threads of before may use them too.
bool may_use_matrix_registers();

}  // namespace stof
