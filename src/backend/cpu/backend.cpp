// SPDX-License-Identifier: Apache-2.0
#include "src/backend/contract.h"
#include "src/backend/cpu/attention.h"
#include "src/backend/cpu/attention/cost_table.h"
#include "src/backend/cpu/attention/sums.h"
#include "src/backend/cpu/matmul.h"
#include "src/backend/cpu/rows.h"

namespace stof {

const Backend cpu_backend{
    .name = "cpu",
    .attention = cpu::attention_kernels(),
    .attention_block_sizes = cpu::attention_block_sizes,
    .matmul = cpu::matmul_operations,
    .rows = cpu::row_operations,
    .measures_live = true,
    .versions = [] { return SoftwareVersions{.driver = {}, .cuda = {}, .blas = cpu::onednn_version()}; },
    .processor = cpu::processor_name,
    .sums = &cpu::sum_operations,
    .launch_us = 5};

}  // namespace stof
