// SPDX-License-Identifier: Apache-2.0
// Compares what a kernel wrote with the definition, row by row.
#pragma once
#include <string>

#include "stof/mask.h"
#include "tests/attention/problem.h"

namespace stof {

// What is wrong with the outputs of the problem under the mask, or empty. Throws what binding the mask to an item's
// lengths throws. Looks at every `rows_apart`-th row of a head, from a different one on in each, and at its last.
std::string difference_from_definition(const Problem& problem, const Mask& mask, std::int64_t rows_apart = 1);

// How far the outputs are from it: relative, of all rows together and of the worst, and the worst logarithm absolutely.
struct OutputErrors {
  double all = 0, worst_row = 0, lse = 0;
};
OutputErrors errors_against_definition(const Problem& problem, const Mask& mask);

}  // namespace stof
