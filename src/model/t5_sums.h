// SPDX-License-Identifier: Apache-2.0
// Sums between layers of T5 as 16 bits hold them.
#pragma once
#include "src/model/model.h"

namespace stof {

// Large checkpoints of T5 have numbers beyond 65,504 between layers, which are infinite in f16. All that is added there
// is made smaller by this, a power of two: the table of tokens and the matrices of what layers add. Norms by the root
// mean square see none of it but in their epsilon, which is smaller by its square (build_t5.cpp).
inline constexpr double kT5SumScale = 0x1p-8;
void make_sums_small(Model& model);

}  // namespace stof
