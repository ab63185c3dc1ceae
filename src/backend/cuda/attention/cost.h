// SPDX-License-Identifier: Apache-2.0
// What the CUDA kernels are predicted to take, from the statistics of a mask and a table of measured costs.
#pragma once
#include "src/backend/contract.h"
#include "src/backend/cuda/attention/cost_table.h"
#include "src/backend/cuda/attention/instances.h"

namespace stof::cuda {

// The statistics of row blocks of so many parts; null where there are none.
const BlockStats* stats_of(const AttentionProblem& problem, int parts);

struct SplitEstimate {
  int most_steps = 0;      // 0: nothing is split
  std::int64_t parts = 0;  // of split row blocks, over the whole problem
};

// Row blocks of more than `most_steps` steps of `tiles` in equal parts of at most so many.
SplitEstimate estimate_split(const AttentionProblem& problem, const BlockStats& stats, int tiles, int most_steps);

// Of the device's costs, or of a table that is tried.
struct Pricing {
  const DeviceCaps& caps;
  const CostTable& table;
};
Pricing pricing_of(const DeviceCaps& caps);

double predict_stream(const AttentionProblem& problem, const Pricing& pricing, const StreamInstance& instance,
                      const SplitEstimate& split);
double predict_band(const AttentionProblem& problem, const Pricing& pricing, const BandInstance& instance);
// Row blocks of more than `most_units` units in parts of at most so many; 0: none is split.
double predict_gather(const AttentionProblem& problem, const Pricing& pricing, const GatherInstance& instance,
                      int most_units);
double predict_mma(const AttentionProblem& problem, const Pricing& pricing, const MmaInstance& instance,
                   const SplitEstimate& split);
double predict_decode(const AttentionProblem& problem, const Pricing& pricing);
double predict_rows(const AttentionProblem& problem, const DeviceCaps& caps);

}  // namespace stof::cuda
