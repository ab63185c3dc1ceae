// SPDX-License-Identifier: Apache-2.0
// Sums between layers of T5 as 16 bits hold them.
#pragma once
#include <string_view>

#include "src/model/model.h"

namespace stof {

// Large checkpoints of T5 have numbers beyond 65,504 between layers, which are infinite in f16. All that is added there
// is made smaller by this, a power of two: the table of tokens and the matrices of what layers add. Norms by the root
// mean square see none of it but in their epsilon, which is smaller by its square (build_t5.cpp). A smaller one would
// leave too little of matrices that are small themselves: in f16 numbers below 2^-14 lose bits.
inline constexpr double kT5SumScale = 0x1p-6;
void make_sums_small(Model& model);

// Of the encoder: its own, which goes before the one that a decoder shares.
std::string_view t5_table(const Model& model);

}  // namespace stof
