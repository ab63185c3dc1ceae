// SPDX-License-Identifier: Apache-2.0
// Matmuls of calls of few rows: what takes time is reading the weight, and a norm of what it is multiplied with costs
// less there than a kernel of its own.
#pragma once
#include "src/fusion/templates.h"

namespace stof {

// Norms that one matmul alone reads are computed by it, where the device's matmuls of few rows do that; gates are
// packed as those want them. The scheme has no bit for it: a norm may stand at the end of one block, its matmul in the
// next.
Graph norms_into_matmuls(Graph fused, const FusionTarget& target);

}  // namespace stof
