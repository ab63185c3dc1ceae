// SPDX-License-Identifier: Apache-2.0
// What the answer of a mask depends on besides position and key.
#pragma once
#include "stof/mask.h"

namespace stof {

struct MaskTraits {
  bool length = false, batch = false, head = false;
};

inline constexpr MaskTraits kPositions{};
inline constexpr MaskTraits kLength{.length = true};

MaskTraits traits_of(const Mask& mask);

}  // namespace stof
