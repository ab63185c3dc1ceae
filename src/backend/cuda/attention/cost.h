// SPDX-License-Identifier: Apache-2.0
// What the CUDA kernels are predicted to take, from the statistics of a mask and tables of measured coefficients.
#pragma once
#include "src/backend/contract.h"
#include "src/backend/cuda/attention/instances.h"

namespace stof::cuda {

struct SplitEstimate {
  int most_steps = 0;      // 0: nothing is split
  std::int64_t parts = 0;  // of split row blocks, over the whole problem
  double heaviest_us = 0;  // the longest piece
  double total_us = 0;     // of one team
};

// Row blocks of more than `most_steps` steps in equal parts of at most so many.
SplitEstimate estimate_split(const AttentionProblem& problem, const BlockStats& stats, const StreamInstance& instance,
                             int most_steps);
SplitEstimate estimate_split(const AttentionProblem& problem, const BlockStats& stats, const MmaInstance& instance,
                             int most_steps);

double predict_stream(const AttentionProblem& problem, const DeviceCaps& caps, const StreamInstance& instance,
                      const SplitEstimate& split);
double predict_band(const AttentionProblem& problem, const DeviceCaps& caps, const BandInstance& instance);
// Row blocks of more than `most_units` units in parts of at most so many; 0: none is split.
double predict_gather(const AttentionProblem& problem, const DeviceCaps& caps, const GatherInstance& instance,
                      int most_units);
double predict_mma(const AttentionProblem& problem, const DeviceCaps& caps, const MmaInstance& instance,
                   const SplitEstimate& split);
double predict_decode(const AttentionProblem& problem);
double predict_rows(const AttentionProblem& problem, const DeviceCaps& caps);

}  // namespace stof::cuda
