// SPDX-License-Identifier: Apache-2.0
// Compares what a kernel wrote with the definition, row by row.
#pragma once
#include <string>

#include "stof/mask.h"
#include "tests/attention/problem.h"

namespace stof {

// What is wrong with the outputs of the problem under the mask, or empty. Throws what binding the mask to an item's
// lengths throws.
std::string difference_from_definition(const Problem& problem, const Mask& mask);

}  // namespace stof
