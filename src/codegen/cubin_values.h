// SPDX-License-Identifier: Apache-2.0
// Numbers that a kernel tells about itself: initialised integers in its machine code, read without a GPU.
#pragma once
#include <string_view>
#include <vector>

namespace stof {

// The values of `name`, an array of int with C linkage. Throws device when the cubin is damaged or has none.
std::vector<int> cubin_values(std::string_view cubin, std::string_view name);

}  // namespace stof
