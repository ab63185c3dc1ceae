// SPDX-License-Identifier: Apache-2.0
// A relative bias as kernels read it: in units of log2, by how far a key lies back, with its ends repeated.
#pragma once
#include "src/backend/contract.h"

namespace stof {

// Of a call's bias, checked against the shape that was planned for and the plan's device.
ScoreBias score_bias(const AttentionArguments& arguments, const AttentionShape& shape, const Device& device);

}  // namespace stof
