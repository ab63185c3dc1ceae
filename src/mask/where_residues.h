// SPDX-License-Identifier: Apache-2.0
// where() seen by residue class: residues.h.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "stof/where.h"

namespace stof {

// Divides q - k wherever the expression is not zero; 0 where only q = k is allowed, or nothing; 1 where none is known.
std::int64_t where_divisor(const std::vector<WhereStep>& steps);

// The expression whose q - k is n times as large; nothing where more than q - k and the head matters.
std::optional<std::vector<WhereStep>> where_of_class(const std::vector<WhereStep>& steps, std::int64_t n);

}  // namespace stof
