// SPDX-License-Identifier: Apache-2.0
// What a packed linear depends on, as text: programs of a model share what has the same (WeightStore).
#pragma once
#include <string>

#include "src/backend/operations.h"

namespace stof {

// Of its matrix, all.
std::string text_of_matrix(const LinearSpec& spec);
// All else.
std::string text_of_epilogue(const LinearSpec& spec);

}  // namespace stof
