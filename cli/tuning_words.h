// SPDX-License-Identifier: Apache-2.0
// Words of the command line that several commands take for tuning.
#pragma once
#include <string>

#include "src/runtime/tune.h"

namespace stof::cli {

// "30s", "2m", a week at most; empty is 0, no limit. Throws invalid_argument.
double seconds_of(const std::string& text);

// "both", "attention", "fusion", "none". Throws invalid_argument.
Ablation ablation_of(const std::string& name);

}  // namespace stof::cli
