// SPDX-License-Identifier: Apache-2.0
// `--shape`: the sizes of an attention problem.
#pragma once
#include <array>
#include <cstdint>
#include <string>

namespace stof::cli {

// Batch, heads, length, head dimension of "1,12,512,64"; spaces do not count. Throws invalid_argument.
std::array<std::int64_t, 4> parse_shape(const std::string& text);

}  // namespace stof::cli
