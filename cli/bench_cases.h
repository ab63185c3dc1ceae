// SPDX-License-Identifier: Apache-2.0
// What `stof bench attention` measures when it is not told: the tables of docs/benchmarks.md.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "stof/device.h"
#include "stof/tensor.h"

namespace stof::cli {

std::vector<std::array<std::int64_t, 4>> default_shapes(const Device& device);  // batch, heads, length, head dimension
std::vector<DType> default_dtypes(const Device& device);
std::vector<std::string> default_masks(const Device& device, std::int64_t length);

// Causal documents as they are served when requests are packed, of 512 to 1500 tokens: an eighth of that below 2048.
std::string packed_documents(std::int64_t length);

}  // namespace stof::cli
