// SPDX-License-Identifier: Apache-2.0
// What the kernels that walk lists of key tiles have in common: the lists on the device, splits, sections.
#pragma once
#include <array>

#include "src/backend/cuda/attention/arrange.h"
#include "src/backend/cuda/attention/cost.h"
#include "src/backend/cuda/attention/row_window.h"
#include "src/backend/cuda/attention/sections.h"
#include "src/backend/cuda/attention/table_planner.h"
#include "src/backend/cuda/attention/tiled_mask.h"

namespace stof::cuda {

inline constexpr int kFewestSteps = 4;  // of a part: fewer do not pay for the merge
// Tried, of the heaviest row block.
inline constexpr std::array kSplits = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};

struct ListedMask : TiledMask {
  std::vector<StreamGroup> groups;  // of masks; where heads are mixed, of items
  Sections sections;                // of slices as the kernel counts them
  WindowShape window;               // of each group's items
  DeviceMemory items, steps, first_steps, words;
  int step_ints = 0;                            // numbers that describe a step
  std::unique_ptr<const TablePlanner> planner;  // of lists that are made on the device
  DeviceMemory slice_groups;                    // of each slice, where a launch takes items with masks of their own

  // Of the heads of a launch. in_window: for kernels that look at a window of the items where there is one.
  StreamLayout layout(const TiledLaunch& launch, bool in_window) const;
};

// Rows of a row block, and keys of a step, that an instance takes.
struct ListShape {
  int parts, tiles, head_dim;
  bool queued = false;    // more than kRoundsDealt rounds of row blocks come from a queue
  int covering = 0;       // see StreamArrangement
  int stacked_heads = 1;  // whose rows a row block has
  bool listed = false;    // row blocks may come by a list
  bool by_slice = false;  // each slice may have a mask of its own
};

// Row blocks of up to so many rounds are dealt in turns: a queue's atomic before each costs more than it balances.
inline constexpr int kRoundsDealt = 2;

int most_steps(int heaviest, int splits);
// Row blocks with more steps than a `splits`-th of the heaviest one's are split.
ArrangedStream arrange_lists(const BlockLayout& layout, const ListShape& shape, int splits);
// All but the kernel. teams: row blocks that the device works on at once.
void set_up(ListedMask& mask, ArrangedStream arranged, const ListShape& shape, std::int64_t teams);
// The same with room for lists that will be made on the device, of one tile for one part a step.
void set_up(ListedMask& mask, const TableProblem& problem, std::int64_t head_dim, std::int64_t teams);

// Of one 64-row part of one part of a split row block.
std::size_t partial_floats(int head_dim);
// False: too much memory for what splitting gains.
bool partials_fit(const SplitEstimate& split, const ListShape& shape);

}  // namespace stof::cuda
