// SPDX-License-Identifier: Apache-2.0
// Numbers of a call, brought to the device by launches, so that a recorded graph keeps them.
#pragma once
#include <span>

#include "src/backend/cuda/driver/gpu.h"

namespace stof::cuda {

// Compiles and loads, so that a later launch does not.
void prepare_numbers(const Gpu& gpu);
void write_numbers(const Gpu& gpu, int* to, std::span<const int> values, StreamHandle stream);

}  // namespace stof::cuda
