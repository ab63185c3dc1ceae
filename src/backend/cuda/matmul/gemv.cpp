// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/matmul/gemv.h"

#include <algorithm>

#include "src/backend/cuda/matmul/activation_code.h"
#include "src/base/error.h"
#include "src/base/narrow.h"

namespace stof::cuda {
namespace {

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
  const int parts = (problem.own_norm ? kGemvNorm : 0) | (problem.gate ? kGemvGate : 0);
  return fmt::format("_ZN4stof4cuda11gemv_kernelINS0_10GemvTraitsINS0_{}ELi{}ELi{}ELi{}EEEEEvNS0_10GemvParamsE",
                     problem.dtype == DType::f16 ? "4Half" : "6Bfloat", tiles, slabs, parts);
}

bool gemv_takes_addresses(const LinearCall& call) {
  for (const void* address : {call.x, const_cast<const void*>(call.out), call.residual})
    if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0) return false;
  return true;
}

GemvLaunch::GemvLaunch(const GemmLinear& linear, const MatmulSetting& setting) : setting_(setting) {
  for (const int slabs : {1, 2}) {
    const Kernel& kernel =
        plain_kernel(linear.gpu, gemv_unit(linear.problem.dtype),
                     gemv_entry(linear.problem, setting.columns / GemvGrid::kTile, slabs), GemvGrid::kThreads);
    kernel.allow_shared_bytes(static_cast<unsigned>(linear.gpu.shared_bytes_per_block - GemvGrid::kStaticBytes));
    kernels_[static_cast<std::size_t>(slabs - 1)] = &kernel;
  }
}

void GemvLaunch::run(const GemmLinear& linear, const LinearCall& call) const {
  if (!gemv_takes_addresses(call))
    fail(ErrorKind::unsupported, "gemv reads and writes at multiples of 16 bytes; x {}, out {}, residual {}", call.x,
         call.out, call.residual);
  MatmulProblem problem = linear.problem;
  problem.rows = call.rows;
  if (const auto why_not = refuses(problem, linear.gpu.caps, setting_)) fail(ErrorKind::unsupported, "{}", *why_not);
  GemvParams params = gemv_params(linear, call);
  const std::int64_t tiles = (problem.columns + setting_.columns - 1) / setting_.columns,
                     resident = std::int64_t{linear.gpu.caps.cores} * gemv_ctas(problem, setting_);
  void* arguments[] = {&params};
  kernels_[call.rows > GemvGrid::kSlabRows ? 1 : 0]->launch(
      {.grid = {.x = static_cast<unsigned>(std::min(tiles, resident))},
       .stream = static_cast<StreamHandle>(call.queue.stream),
       .overlap_previous = linear.gpu.caps.arch >= 90,
       .least_shared_bytes = static_cast<unsigned>(gemv_shared_bytes(problem, setting_))},
      arguments);
}

}  // namespace stof::cuda
