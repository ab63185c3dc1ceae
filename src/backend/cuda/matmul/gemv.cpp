// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/matmul/gemv.h"

#include "src/backend/cuda/matmul/activation_code.h"
#include "src/backend/cuda/rows.h"
#include "src/base/error.h"
#include "src/base/narrow.h"

namespace stof::cuda {
namespace {

constexpr int kSlabRows = 8;

GemvParams gemv_params(const GemmLinear& linear, const LinearCall& call) {
  const MatmulProblem& problem = linear.problem;
  const PackedWeights& weights = linear.weights;
  return {.x = call.x,
          .weight = weights.matrix->values.as<void>(),
          .bias = problem.bias ? weights.exact_bias.as<float>() : nullptr,
          .residual = problem.residual ? call.residual : nullptr,
          .out = call.out,
          .scale = weights.own_scale.as<float>(),
          .shift = weights.own_shift.as<float>(),
          .epsilon = linear.x_epsilon,
          .activation = code_of(problem.activation),
          .rows = narrow<int>(call.rows, "rows"),
          .columns = narrow<int>(problem.out_columns(), "columns"),
          .inner = narrow<int>(problem.inner, "in")};
}

}  // namespace

std::string gemv_unit(DType dtype) { return fmt::format("gemv_{}", name_of(dtype)); }

std::string gemv_entry(const MatmulProblem& problem, int tiles, int slabs) {
  return fmt::format(
      "_ZN4stof4cuda11gemv_kernelINS0_10GemvTraitsINS0_{}ENS0_{}ELi{}ELi{}ELb{:d}ELb{:d}EEEEEvNS0_10GemvParamsE",
      storage_of(problem.dtype), problem.dtype == DType::f16 ? "4Half" : "6Bfloat", tiles, slabs, problem.own_norm,
      problem.gate);
}

bool gemv_takes_addresses(const LinearCall& call) {
  for (const void* address : {call.x, const_cast<const void*>(call.out), call.residual})
    if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0) return false;
  return true;
}

GemvLaunch::GemvLaunch(const GemmLinear& linear, const MatmulSetting& setting)
    : tiles_(setting.columns / GemvGrid::kTile) {
  const MatmulProblem& problem = linear.problem;
  shared_bytes_ = narrow<unsigned>(GemvGrid::kChunkBytes + own_norm_bytes(problem), "bytes");
  for (const int slabs : {1, 2}) {
    const Kernel& kernel =
        plain_kernel(linear.gpu, gemv_unit(problem.dtype), gemv_entry(problem, tiles_, slabs), GemvGrid::kThreads);
    kernel.allow_shared_bytes(GemvGrid::kChunkBytes + GemvGrid::kMostNormBytes);  // whichever matmul runs it
    kernels_[static_cast<std::size_t>(slabs - 1)] = &kernel;
  }
}

void GemvLaunch::run(const GemmLinear& linear, const LinearCall& call) const {
  if (call.rows > GemvGrid::kMostRows)
    fail(ErrorKind::unsupported, "a matmul for few rows of {} rows; accepted: up to {}", call.rows,
         GemvGrid::kMostRows);
  if (!gemv_takes_addresses(call))
    fail(ErrorKind::unsupported, "gemv reads and writes at multiples of 16 bytes; x {}, out {}, residual {}", call.x,
         call.out, call.residual);
  GemvParams params = gemv_params(linear, call);
  const int of_out = linear.problem.gate ? tiles_ / 2 : tiles_, columns = GemvGrid::kTile * of_out;
  void* arguments[] = {&params};
  kernels_[call.rows > kSlabRows ? 1 : 0]->launch(
      {.grid = {.x = static_cast<unsigned>((params.columns + columns - 1) / columns)},
       .stream = static_cast<StreamHandle>(call.queue.stream),
       .overlap_previous = linear.gpu.caps.arch >= 90,
       .least_shared_bytes = shared_bytes_},
      arguments);
}

}  // namespace stof::cuda
