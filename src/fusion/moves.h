// SPDX-License-Identifier: Apache-2.0
// How one scheme becomes another: the moves of stage 1.
#pragma once
#include <string_view>
#include <vector>

#include "src/fusion/rules.h"

namespace stof {

struct Move {
  std::string_view name;  // expand, seize, compete, yield, release
  std::size_t kind = 0;   // of the block
  FusionSegment from;     // the segment that moves
  std::string bits;       // of the kind, afterwards
};

// Legal moves of a kind of block, segment by segment from the first on.
//   expand   a segment takes in its neighbour, and the next ones where no template covers fewer
//   seize    a segment with a matmul takes one operator from a neighbour without any
//   compete  of two segments with matmuls the one with exactly one takes an operator of the other
//   yield    the other way round than seize: the segment without a matmul takes
//   release  a segment is cut in two
std::vector<Move> moves_of(const Blocks& blocks, std::size_t kind, const std::string& bits);

}  // namespace stof
