// SPDX-License-Identifier: Apache-2.0
// Which plan attention of a step goes by: one token for each text, of lengths that a device reads for itself.
#pragma once
#include "stof/attention.h"

namespace stof {

// Kernels that do not read lengths where they lie need a launch in front of each call, which no prediction has: of a
// device beside the host, one that reads them is taken where it is slower by less than that.
Attention plan_step(const Mask& mask, const AttentionShape& shape, const Device& device);

}  // namespace stof
