// SPDX-License-Identifier: Apache-2.0
// Where each value of a graph lies in one arena. Every value has as many rows as the call has tokens, so offsets are in
// columns: the plan is made once and holds for every call.
#pragma once
#include <cstdint>
#include <vector>

#include "src/graph/graph.h"

namespace stof {

struct ArenaPlan {
  std::vector<std::int64_t> offset;  // [values], in columns of `rows` elements
  std::int64_t columns = 0;          // peak

  std::int64_t elements(std::int64_t rows) const { return columns * rows; }
};

// First fit in the order of execution. A value may take the memory of another whose last use came before. Two values
// of one node do not overlap, but for an output that takes exactly the place of an input: of an operation on rows, or
// of the residual of a matmul, where nothing else reads that input later.
ArenaPlan plan_arena(const Graph& graph);

// For calls whose result is wanted of some rows alone: behind the last step that reads other rows, or numbers of the
// call's rows, the others are dropped. Steps from `cut` on, the tail, have an arena of as many rows as are kept.
struct SplitArena {
  std::size_t cut = 0;        // nodes
  std::vector<ValueId> live;  // what the tail reads of what was made before: copied from the body's arena to the tail's
  ArenaPlan body, tail;       // of values that are not theirs, no offset
};
SplitArena split_arena(const Graph& graph);

// The most columns that are alive at once: no plan can do with less.
std::int64_t live_columns(const Graph& graph);

}  // namespace stof
