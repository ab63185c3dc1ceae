// SPDX-License-Identifier: Apache-2.0
// What was built, for results that shall be measured again.
#pragma once
#include <string_view>

namespace stof::cli {

std::string_view build_commit();  // "4e1c0ab", "4e1c0ab-dirty", or "unknown" outside a git checkout

}  // namespace stof::cli
