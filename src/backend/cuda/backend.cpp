// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <fstream>

#include "src/backend/contract.h"
#include "src/backend/cuda/attention.h"
#include "src/backend/cuda/attention/kernel_store.h"
#include "src/backend/cuda/attention/numbers.h"
#include "src/backend/cuda/attention/side_by_side.h"
#include "src/backend/cuda/attention/sums.h"
#include "src/backend/cuda/attention/token_attention.h"
#include "src/backend/cuda/driver/api.h"
#include "src/backend/cuda/driver/blas.h"
#include "src/backend/cuda/driver/work_stream.h"
#include "src/backend/cuda/matmul.h"
#include "src/backend/cuda/memory.h"
#include "src/backend/cuda/rows.h"

namespace stof {
namespace {

// The kernel module says its version here, in the line after the word; containers see it too.
std::string kernel_module() {
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;)
    if (!word.empty() && word.front() >= '0' && word.front() <= '9' && word.find('.') != std::string::npos) return word;
  return {};
}

SoftwareVersions versions() {
  int cuda = 0;
  cuda::driver().version(&cuda);
  return {.driver = kernel_module(),
          .cuda = fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10),
          .blas = cuda::missing_blas().empty() ? cuda::blas_version() : ""};
}

}  // namespace

const Backend cuda_backend{.name = "cuda",
                           .attention = cuda::attention_kernels(),
                           .attention_block_sizes = cuda::attention_block_sizes,
                           .matmul = cuda::matmul_operations,
                           .rows = cuda::row_operations,
                           .memory = &cuda::memory_operations,
                           .measures_keys = true,
                           .open_stream = cuda::open_stream,
                           .missing_for_models = cuda::missing_blas,
                           .versions = versions,
                           .why_not_compiled = cuda::why_not_compiled,
                           .judge_lists = cuda::judge_lists,
                           .side_by_side = &cuda::side_by_side,
                           .sums = &cuda::sum_operations,
                           .token_attention = &cuda::token_attention,
                           .launch_us = 2};

}  // namespace stof
