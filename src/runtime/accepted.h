// SPDX-License-Identifier: Apache-2.0
// What sessions and tuning take alike.
#pragma once
#include <string>

#include "stof/device.h"
#include "stof/mask.h"

namespace stof {

// The mask itself. Throws invalid_argument where it depends on the batch index.
const Mask& same_for_every_text(const Mask& mask);

// Of its own choice, "auto", a GPU where whole models run there.
Device device_for_models(const std::string& name);

}  // namespace stof
