// SPDX-License-Identifier: Apache-2.0
// stof tune --compile: the kernels that a search would begin with, compiled into the cache, and no more.
#pragma once
#include <string>

#include "src/model/model.h"
#include "src/runtime/tune.h"

namespace stof::cli {

// Before a model is read. Throws invalid_argument for a device that nothing is compiled for, unsupported where nothing
// can be compiled.
void check_compiles(const TuneOptions& options);

// Throws invalid_argument or unsupported where the search has no kernel of our own, and when all others are done
// unsupported or device for those that could not be compiled, each of which was said. `processes` as of KernelsAhead.
void compile_kernels(const Model& model, const TuneOptions& options, int processes, const std::string& json);

}  // namespace stof::cli
