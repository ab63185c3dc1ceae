// SPDX-License-Identifier: Apache-2.0
#include "src/backend/contract.h"
#include "src/backend/cpu/attention.h"

namespace stof {

const Backend cpu_backend{
    .name = "cpu", .attention = cpu::attention_kernels(), .attention_block_sizes = cpu::attention_block_sizes()};

}  // namespace stof
