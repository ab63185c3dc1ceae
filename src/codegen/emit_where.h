// SPDX-License-Identifier: Apache-2.0
// where() as a CUDA expression on 32-bit integers, each constant a parameter.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "src/mask/range.h"
#include "src/mask/terms/where.h"

namespace stof {

struct EmittedWhere {
  std::string text;  // a bool; each '$' is the parameter of the same rank
  std::vector<std::int32_t> parameters;
  std::string refusal;  // why there is no text: an operation that may fail, a value beyond 32 bits
};

EmittedWhere emit_where(const term::Where& term, const MaskExtent& extent);

}  // namespace stof
