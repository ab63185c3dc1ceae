// SPDX-License-Identifier: Apache-2.0
// Compiles what a matmul would be run by into the kernel cache, without a GPU: for processes that do so beside each
// other.
#pragma once
#include "src/backend/operations.h"

namespace stof::cuda {

// True where something was compiled that was not there. Throws unsupported where there is no compiler.
bool compile_ahead(const LinearSpec& spec, std::int64_t rows, const MatmulSetting& setting);

// Whether nothing has to be compiled for it: cuBLASLt, or a kernel that was built with the library.
bool is_built_in(const LinearSpec& spec, std::int64_t rows, const MatmulSetting& setting);

}  // namespace stof::cuda
