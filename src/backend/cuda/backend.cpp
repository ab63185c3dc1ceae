// SPDX-License-Identifier: Apache-2.0
#include "src/backend/contract.h"
#include "src/backend/cuda/attention.h"
#include "src/backend/cuda/driver/blas.h"
#include "src/backend/cuda/driver/work_stream.h"
#include "src/backend/cuda/matmul.h"
#include "src/backend/cuda/memory.h"
#include "src/backend/cuda/rows.h"

namespace stof {

const Backend cuda_backend{.name = "cuda",
                           .attention = cuda::attention_kernels(),
                           .attention_block_sizes = cuda::attention_block_sizes(),
                           .matmul = cuda::matmul_operations,
                           .rows = cuda::row_operations,
                           .memory = &cuda::memory_operations,
                           .measures_keys = true,
                           .open_stream = cuda::open_stream,
                           .missing_for_models = cuda::missing_blas,
                           .launch_us = 2};

}  // namespace stof
