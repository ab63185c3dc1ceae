// SPDX-License-Identifier: Apache-2.0
// Tensors of the host, brought to a GPU and back.
#pragma once
#include <optional>

#include "src/backend/contract.h"

namespace stof::cuda {

extern const MemoryOperations memory_operations;

// Throws invalid_argument when the address is null or not of this GPU.
void check_address(const Device& device, std::string_view name, const void* address);

// The GPU whose memory this is, if the host cannot read it.
std::optional<int> gpu_behind(const void* address);

}  // namespace stof::cuda
