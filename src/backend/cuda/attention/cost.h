// SPDX-License-Identifier: Apache-2.0
// What the CUDA kernels are predicted to take, from the statistics of a mask and a table of measured costs.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "src/backend/contract.h"
#include "src/backend/cuda/attention/cost_table.h"
#include "src/backend/cuda/attention/instances.h"

namespace stof::cuda {

// A launch's lists are of heads with one mask, side by side, of all heads of an item, or of all items.
enum class ListsOf : std::uint8_t { one_mask, all_heads, all_items };
// That a call takes when the mask differs by head or item; at least so many where a mask comes again in later heads.
std::int64_t launches(const AttentionProblem& problem, ListsOf lists);
// The end of a plan's reason: nothing where heads and items share one mask.
std::string_view launches_in_words(const AttentionProblem& problem, ListsOf lists);

// Neighbouring query heads whose rows instances that stack heads put into one tile; 1 where that is not done: for so
// few rows that decode_attention waits for keys alone, and for many queries, of which tiles are full without.
int heads_to_stack(const AttentionShape& shape, std::int64_t alike_heads);
int heads_to_stack(const AttentionProblem& problem, const StreamInstance& instance);
// Whether decode_attention has the rows of a stack of so many heads in one task, which reads keys once. It is the
// better one at splitting these: in bench/results/h200-decode-or-stacks.txt stacks in parts took up to twice what is
// predicted.
bool is_one_task(const AttentionShape& shape, int heads);

// The statistics of row blocks of so many parts; null where there are none.
const BlockStats* stats_of(const AttentionProblem& problem, int parts);
// Of the instance's row blocks; null also where it has no heads to stack.
const BlockStats* stats_of(const AttentionProblem& problem, const StreamInstance& instance);

// Row blocks as a kernel that walks lists of 64-key tiles gets them.
struct ListedTiles {
  int key_step = 64;                            // tiles begin at its multiples
  std::int64_t heaviest = 0;                    // tiles of one row block
  std::span<const BlockStats::Bin> row_blocks;  // of all heads
  int stacked_heads = 1;                        // that have them together
};
// `stats` of the instance's row blocks. Where most tiles are cut by the mask's edges, they begin where the mask does.
ListedTiles stream_tiles(const AttentionProblem& problem, const BlockStats& stats, int stacked_heads = 1);
// Where lists are short, they do too; where they are long, the grid packs quicker.
ListedTiles mma_tiles(const AttentionProblem& problem, const BlockStats& stats);

struct SplitEstimate {
  int most_steps = 0;      // 0: nothing is split
  std::int64_t parts = 0;  // of split row blocks, over the whole problem
};

// The heaviest row block in `splits` parts of steps of `tiles`, others in parts that are no longer.
SplitEstimate estimate_split(const AttentionProblem& problem, const ListedTiles& listed, int tiles, int splits);

// Of the device's costs, or of a table that is tried.
struct Pricing {
  const DeviceCaps& caps;
  const CostTable& table;
};
Pricing pricing_of(const DeviceCaps& caps);
const ListCosts& costs_of(const StreamInstance& instance, const DeviceCaps& caps);

double predict_stream(const AttentionProblem& problem, const Pricing& pricing, const StreamInstance& instance,
                      const SplitEstimate& split);
// Whether a grid behind adds so many parts up sooner than the last one of each row block to end.
bool sums_behind(const ListCosts& costs, int splits);
// Whether launches of such a plan of the problem have these sums: where rows have spans. Then row blocks are cut call
// by call (span_split.h), into however many parts.
bool cut_by_call(const AttentionProblem& problem, const StreamInstance& instance, const DeviceCaps& caps, int splits);
double predict_spans(const AttentionProblem& problem, const Pricing& pricing, const StreamInstance& instance);
double predict_band(const AttentionProblem& problem, const Pricing& pricing, const BandInstance& instance);
// Row blocks of more than `most_units` units in parts of at most so many; 0: none is split.
double predict_gather(const AttentionProblem& problem, const Pricing& pricing, const GatherInstance& instance,
                      int most_units);
double predict_mma(const AttentionProblem& problem, const Pricing& pricing, const MmaInstance& instance,
                   const SplitEstimate& split);
double predict_decode(const AttentionProblem& problem, const Pricing& pricing, const DecodeInstance& instance);
double predict_rows(const AttentionProblem& problem, const DeviceCaps& caps);

}  // namespace stof::cuda
