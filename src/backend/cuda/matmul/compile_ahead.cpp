// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/matmul/compile_ahead.h"

#include "src/backend/cuda/attention/kernel_store.h"
#include "src/backend/cuda/matmul/instances.h"
#include "src/codegen/compiler.h"
#include "stof/device.h"

namespace stof::cuda {

bool is_built_in(const LinearSpec& spec, std::int64_t rows, const MatmulSetting& setting) {
  if (setting.kernel == MatmulSetting::Kernel::cublaslt) return true;
  const GemmInstance instance = instance_of(problem_of(spec, rows), setting);
  return !embedded_cubin(name_of(instance), target_of(spec.device->caps.arch)).empty();
}

bool compile_ahead(const LinearSpec& spec, std::int64_t rows, const MatmulSetting& setting) {
  if (is_built_in(spec, rows, setting)) return false;
  static const Compiler compiler(default_compiler_options());
  compiler.cubin(source_of(instance_of(problem_of(spec, rows), setting)), target_of(spec.device->caps.arch));
  return true;
}

}  // namespace stof::cuda
