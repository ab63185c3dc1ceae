// SPDX-License-Identifier: Apache-2.0
// What a matmul would be run by, as a kernel to compile before it is wanted. Needs no GPU.
#pragma once
#include <optional>

#include "src/backend/operations.h"
#include "src/codegen/compile_worker.h"

namespace stof::cuda {

// Nothing where nothing has to be compiled for it.
std::optional<CompileJob> compile_job(const LinearSpec& spec, std::int64_t rows, const MatmulSetting& setting);

// Whether nothing has to be compiled for it: cuBLASLt, or a kernel that was built with the library.
bool is_built_in(const LinearSpec& spec, std::int64_t rows, const MatmulSetting& setting);

}  // namespace stof::cuda
