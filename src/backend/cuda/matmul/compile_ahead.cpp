// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/matmul/compile_ahead.h"

#include "src/backend/cuda/attention/kernel_store.h"
#include "src/backend/cuda/matmul/instances.h"
#include "src/codegen/compiler.h"
#include "stof/device.h"

namespace stof::cuda {

bool is_built_in(const LinearSpec& spec, std::int64_t rows, const MatmulSetting& setting) {
  if (setting.kernel == MatmulSetting::Kernel::cublaslt || setting.kernel == MatmulSetting::Kernel::gemv) return true;
  const GemmInstance instance = instance_of(problem_of(spec, rows), setting);
  return !embedded_cubin(name_of(instance), target_of(spec.device->caps.arch)).empty();
}

std::optional<CompileJob> compile_job(const LinearSpec& spec, std::int64_t rows, const MatmulSetting& setting) {
  if (is_built_in(spec, rows, setting)) return std::nullopt;
  const GemmInstance instance = instance_of(problem_of(spec, rows), setting);
  return CompileJob{
      .name = name_of(instance), .source = source_of(instance), .target = target_of(spec.device->caps.arch)};
}

}  // namespace stof::cuda
