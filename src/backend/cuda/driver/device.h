// SPDX-License-Identifier: Apache-2.0
// CUDA devices by name: those of the machine, and descriptions of others, for which one can plan.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "src/backend/cuda/driver/gpu.h"
#include "stof/device.h"

namespace stof::cuda {

inline constexpr int kDescribed = -1;  // ordinal of a device that is not there

// "cuda:h200", "cuda:a100": what a plan needs to know. Empty for another name.
std::optional<DeviceCaps> described(std::string_view name);
std::vector<std::string_view> described_names();
// What the driver calls a device of this name: another name for a description, "NVIDIA H200 (described)".
std::string_view driver_name(std::string_view device);

Device open(int ordinal);  // throws device
Device open_described(const DeviceCaps& caps);

// Throws device for a description.
const Gpu& gpu_of(const Device& device);

}  // namespace stof::cuda
