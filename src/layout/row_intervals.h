// SPDX-License-Identifier: Apache-2.0
// The allowed keys of rows as intervals, one row after the other.
#pragma once
#include <functional>
#include <span>

#include "src/layout/block_layout.h"

namespace stof {

// Of one row: intervals that ascend, disjoint and not adjacent. False: no further row is wanted.
using VisitIntervals = std::function<bool(std::span<const RowLayout::Interval> intervals)>;

// All rows of a group in their order. Whether all were visited.
bool scan_intervals(const BoundMask& mask, int group, const VisitIntervals& visit);

}  // namespace stof
