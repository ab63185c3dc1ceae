// SPDX-License-Identifier: Apache-2.0
// What the predictions of several kernels are made of.
#pragma once
#include <algorithm>

#include "src/backend/cuda/attention/cost.h"
#include "src/base/error.h"

namespace stof::cuda {

constexpr double kCacheBytes = 40e6;  // what stays in the L2 from launch to launch

template <class Costs, class Instance>
const Costs& cost_of(const std::vector<Costs>& costs, std::span<const Instance> instances, const Instance& instance) {
  const auto found = std::find(instances.begin(), instances.end(), instance);
  STOF_CHECK(found != instances.end());
  return costs[static_cast<std::size_t>(found - instances.begin())];
}

inline double items_per_measured(const AttentionProblem& problem) {
  return static_cast<double>(problem.shape.batch) / static_cast<double>(problem.stats.extent.batch);
}

inline double slices_of(const AttentionProblem& problem) {
  return static_cast<double>(problem.shape.batch * problem.shape.heads);
}

// Of the tensors, as far as rows need them.
inline double traffic_bytes(const AttentionProblem& problem) {
  const AttentionShape& s = problem.shape;
  const double rows =
      2.0 * static_cast<double>(s.heads * s.queries) + 2.0 * static_cast<double>(s.kv_heads) * problem.stats.keys_seen;
  return rows * static_cast<double>(s.batch * s.head_dim) * static_cast<double>(size_of(s.dtype));
}

// Of these bytes, copied. What fits the cache stays there from the kernel that wrote it, or from launch to launch, and
// of what is half as much again nothing does.
inline double traffic_us(const AttentionProblem& problem) {
  constexpr double kBytesPerUs = 4.3e6, kFromCache = 0.75;  // of the time that DRAM takes
  const double bytes = traffic_bytes(problem), past = (bytes - kCacheBytes) / (kCacheBytes / 2);
  return bytes / kBytesPerUs * std::clamp(kFromCache + (1 - kFromCache) * past, kFromCache, 1.0);
}

// Of so many tiles of 64 rows and keys: what the limit of power leaves the tensor cores in launches that fill the
// device, for random f16 values at d 128; one H200 differs from another by a tenth and more (docs/kernels/choice.md).
inline double power_us(const AttentionShape& shape, double tiles) {
  constexpr double kFlopsPerUs = 730e6;
  return 4.0 * 64 * 64 * static_cast<double>(shape.head_dim) * tiles / kFlopsPerUs;
}

// Launches of residue classes, rows of which the last row blocks lack, take longer than one of as many whole items, and
// more so by bands, which have a form of their own for items shorter than planned: `share` of it, by what the choice
// loses on nine problems of bench/results/h200-attention-cost.json and h200-attention-regret.json.
inline double of_classes(const AttentionProblem& problem, double share, double us) {
  return problem.uneven ? us * (1 + share) : us;
}

// Row blocks of a stack read the same keys, but far apart in the order of the grid, so many bytes of keys in between;
// those of heads side by side share their loads. Of the rows of bench/results/486b689-h200-grouped.json that memory
// bounds: 1.6 to 1.8 times.
inline double times_from_memory(double bytes) { return bytes < kCacheBytes ? 1 : 1.7; }

// What they read once more costs time even where the cache holds it, if a team's groups wait for the same loads: of
// four such problems at d 128 of bench/results/h200-attention-cost.json and h200-attention-regret.json 6 to 13 %.
inline double times_apart(const StreamInstance& instance) { return instance.groups > 1 ? 1.1 : 1; }

inline double together(double work, double traffic, double overlap) {
  return std::max(work, traffic) + overlap * std::min(work, traffic);
}

// The share of a step's cost at full load that it has when so many pieces are spread over the teams.
inline double load_factor(double alone, double pieces, double teams) {
  return alone + (1 - alone) * std::min(1.0, pieces / teams);
}

}  // namespace stof::cuda
