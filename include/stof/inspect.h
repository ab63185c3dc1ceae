// SPDX-License-Identifier: Apache-2.0
// What a mask allows for so many queries and keys: element by element, in numbers, as a drawing.
#pragma once
#include <cstdint>
#include <string>

#include "stof/mask.h"
#include "stof/mask_extent.h"

namespace stof {

// Each throws invalid_argument when an array, selection or grid of the mask does not fit the extent, and when an
// expression of where() cannot be computed for an element that is looked at.

// bool [batch, heads, queries, keys]
Tensor dense_mask(const Mask& mask, const MaskExtent& extent);

struct MaskSummary {
  double density = 0;           // allowed pairs / all pairs
  double allowed_pairs = 0;     // over all items and heads; exact up to 2^53
  std::int64_t empty_rows = 0;  // rows without an allowed key, over all items and heads
  int distinct = 0;             // masks of heads and items that differ as they are written
};
MaskSummary summarise(const Mask& mask, const MaskExtent& extent);

// The mask of one head as text of at most 64 columns, UTF-8, as `stof mask --draw` shows it.
std::string draw(const Mask& mask, const MaskExtent& extent, std::int64_t item = 0, std::int64_t head = 0);

}  // namespace stof
