// SPDX-License-Identifier: Apache-2.0
// A mask as a CUDA predicate. The source depends on the structure of the mask alone: its numbers are arguments, so that
// window(256) and window(512) are one kernel.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/mask/range.h"
#include "stof/mask.h"

namespace stof {

struct EmittedMask {
  // Defines struct MaskPredicate { static bool allows(const int* a, int b, int h, int q, int k); } with `a` the
  // parameters, b the item, h the head, q the position and k the key.
  std::string source;
  std::vector<std::int32_t> parameters;
};

// Why a mask has no predicate, "documents holds an array" for one; empty when it has. Such masks run from bitmaps.
std::optional<std::string> refuses_to_emit(const Mask& mask, const MaskExtent& extent);

// For positions and keys of this extent. Throws unsupported with the refusal.
EmittedMask emit_mask(const Mask& mask, const MaskExtent& extent);

}  // namespace stof
