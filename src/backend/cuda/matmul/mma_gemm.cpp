// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/matmul/mma_gemm.h"

#include "src/backend/cuda/driver/tensor_map.h"
#include "src/backend/cuda/matmul/instances.h"
#include "src/base/error.h"
#include "src/base/narrow.h"

namespace stof::cuda {
namespace {

// As maps of it would.
void refuse_unaligned(std::string_view name, const void* address) {
  if (const auto why_not = refuses(TensorBox{.name = name, .base = address, .sizes = {1, 1, 1, 1, 1}}))
    fail(ErrorKind::unsupported, "{}", *why_not);
}

}  // namespace

MmaGemmLaunch::MmaGemmLaunch(const GemmLinear& linear, const MatmulSetting& setting)
    : setting_(setting), kernel_(kernel_of(linear, setting, kMmaGemmEntry)) {}

void MmaGemmLaunch::run(const GemmLinear& linear, const LinearCall& call) const {
  refuse_unaligned("x", call.x);
  refuse_unaligned("out", call.out);
  if (linear.problem.residual) refuse_unaligned("the residual", call.residual);
  MmaGemmParams params{};
  static_cast<GemmParams&>(params) = params_of(linear, call, setting_);
  params.x = call.x;
  params.weight = linear.weights.matrix->values.as<void>();
  const std::int64_t down = (call.rows + setting_.rows - 1) / setting_.rows,
                     across = (linear.problem.columns + setting_.columns - 1) / setting_.columns;
  void* arguments[] = {&params};
  kernel_.kernel.launch(
      {.grid = {.x = narrow<unsigned>(down * across, "CTAs")}, .stream = static_cast<StreamHandle>(call.queue.stream)},
      arguments);
}

}  // namespace stof::cuda
