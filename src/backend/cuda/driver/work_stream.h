// SPDX-License-Identifier: Apache-2.0
// A stream of a GPU as the contract wants it.
#pragma once
#include <memory>

#include "src/backend/device_stream.h"
#include "stof/device.h"

namespace stof::cuda {

// Throws device.
std::unique_ptr<DeviceStream> open_stream(const Device& device);

}  // namespace stof::cuda
