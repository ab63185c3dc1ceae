// SPDX-License-Identifier: Apache-2.0
// A layer norm between matmuls needs no pass of its own: the matmul before it writes the sum as it is, and the moments
// of its rows; the matmuls that read it normalise their operands.
#pragma once
#include <span>

#include "src/fusion/templates.h"

namespace stof {

// Of a graph without unused nodes. `norms`: values of norms whose input a matmul writes. Each that only matmuls read,
// in ways that the device takes, goes to its readers; the others stay nodes.
Graph defer_norms(Graph fused, std::span<const ValueId> norms, const FusionTarget& target);

}  // namespace stof
