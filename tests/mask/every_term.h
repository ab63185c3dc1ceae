// SPDX-License-Identifier: Apache-2.0
// Every row of the table of docs/masks.md as text, beside its definition, written down without anything of src/mask.
#pragma once
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/mask/range.h"
#include "stof/tensor.h"

namespace stof {

struct DefinedTerm {
  std::string text;
  std::function<bool(std::int64_t b, std::int64_t h, std::int64_t p, std::int64_t j)> allows;
};

// For one extent of two items and three heads: a grid is left out where queries and keys are not as many. The arrays
// are written into `folder`.
std::vector<DefinedTerm> every_term(const MaskExtent& extent, const std::filesystem::path& folder);

}  // namespace stof
