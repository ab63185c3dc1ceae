// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/cost.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "src/base/error.h"

namespace stof::cuda {
namespace {

// What a team takes, in us: a step while all of a multiprocessor's teams work, a step of the heaviest row block, where
// the others are done; what a row block costs besides, and one of its parts when its keys are split. Fitted to the rows
// of an earlier state of the kernels, d 128 in teams of 64 rows to those of docs/kernels/attention-log.md, and scaled
// by what bench/results/e991505-h200-attention.json takes in relation to them, 0.96 on average; instances without a row
// have the step of their nearest kin times the matmul that they have more.
struct ListTimes {
  double step, last_step, item, part;
};
template <class Instance>
struct ListCost {
  Instance instance;
  ListTimes times;
};
using StreamCost = ListCost<StreamInstance>;
constexpr std::array kStreamCosts = {
    StreamCost{{32, 4, 1, 1, 2, 1, 1}, {0.86, 0.77, 3.36, 1.92}},
    StreamCost{{64, 4, 1, 1, 2, 1, 1}, {0.98, 0.89, 3.93, 2.04}},
    StreamCost{{64, 1, 1, 1, 2, 3, 1}, {1.52, 0.71, 0.38, 4.38}},
    StreamCost{{64, 2, 2, 1, 4, 1, 1}, {0.93, 0.93, 3.38, 1.08}},
    StreamCost{{64, 1, 4, 1, 6, 1, 1}, {0.97, 0.86, 3.07, 1.30}},
    StreamCost{{64, 2, 1, 1, 4, 1, 2}, {0.53, 0.41, 2.25, 2.82}},
    StreamCost{{64, 1, 1, 1, 8, 1, 4}, {0.26, 0.16, 2.05, 2.41}},
    StreamCost{{96, 1, 3, 1, 3, 1, 1}, {1.06, 0.67, 2.40, 1.15}},
    StreamCost{{96, 1, 1, 1, 2, 2, 1}, {1.15, 0.77, 1.44, 3.84}},
    StreamCost{{128, 1, 2, 2, 2, 1, 1}, {1.56, 0.96, 2.66, 1.11}},
    StreamCost{{128, 1, 3, 1, 3, 1, 1}, {1.20, 0.47, 0.50, 1.15}},
    StreamCost{{128, 2, 1, 1, 2, 1, 1}, {0.86, 0.72, 3.55, 1.92}},
    StreamCost{{128, 1, 1, 1, 4, 1, 2}, {0.56, 0.43, 1.44, 2.88}},
    StreamCost{{192, 1, 2, 1, 2, 1, 1}, {1.82, 1.25, 3.84, 1.92}},
    StreamCost{{256, 1, 1, 1, 2, 1, 1}, {1.63, 1.34, 3.84, 2.88}},
};

// The same of the mma kernel, whose teams are CTAs, on compute capability 9.0: d 64 and d 128 from the rows of
// bench/results/02c47cb-h200-mma.json (relative error up to 20 %), the others from those by the matmul that they have
// more or less. Elsewhere it only ranks the kernel's own instances, and keeps it ahead of row_attention.
using MmaCost = ListCost<MmaInstance>;
constexpr std::array kMmaCosts = {
    MmaCost{{32, 1, 1, 2, 4}, {1.20, 0.60, 4.0, 1.0}},  MmaCost{{64, 1, 1, 2, 4}, {1.80, 0.80, 5.4, 1.0}},
    MmaCost{{64, 2, 2, 2, 2}, {1.60, 1.10, 7.0, 1.0}},  MmaCost{{96, 1, 1, 2, 2}, {1.35, 0.90, 4.0, 1.0}},
    MmaCost{{128, 1, 1, 2, 2}, {1.68, 1.10, 4.5, 1.0}}, MmaCost{{128, 2, 2, 1, 2}, {3.02, 1.80, 6.0, 1.0}},
    MmaCost{{192, 1, 1, 1, 2}, {2.90, 2.00, 6.0, 2.0}}, MmaCost{{256, 1, 1, 1, 2}, {4.00, 2.60, 7.0, 2.0}},
};
constexpr double kLaunchUs = 2.0;

// A round of row blocks, one a CTA; and how far above the traffic of all tensors the kernel stays.
struct BandCost {
  BandInstance instance;
  double round, traffic;
};
constexpr std::array kBandCosts = {
    BandCost{{64, 1, 96, 5}, 2.25, 1.22}, BandCost{{64, 1, 128, 4}, 3.0, 1.22}, BandCost{{64, 1, 192, 3}, 3.7, 1.35},
    BandCost{{64, 2, 96, 2}, 2.8, 1.11},  BandCost{{64, 2, 128, 2}, 3.4, 1.11},
};

// A unit, what a row block costs besides, and one of its parts when its units are split. From the rows of
// docs/kernels/attention-log.md: 10 to 30 % off, since split parts cost more the more of them there are.
struct GatherCost {
  GatherInstance instance;
  double unit, item, part;
};
constexpr std::array kGatherCosts = {
    GatherCost{{64, 4, 4}, 1.31, 3.73, 1.9},
    GatherCost{{64, 5, 3}, 1.41, 4.03, 1.9},
    GatherCost{{128, 4, 2}, 1.94, 4.37, 2.9},
};

// Finding the work, the first tile's latency, adding up what was split; the rate at which keys and values are read.
struct DecodeCost {
  double launch, bytes_per_us;
};
constexpr DecodeCost kDecodeFromCache{7.5, 6.8e6}, kDecodeFromMemory{10, 4.6e6};
constexpr double kCacheBytes = 40e6;  // what stays in the L2 from launch to launch

constexpr double kBytesPerUs = 4.3e6;   // copied, DRAM
constexpr double kRowPairsPerUs = 8e3;  // multiply-adds of a multiprocessor in the row-wise kernel

template <class Costs, class Instance>
const auto& cost_of(const Costs& costs, const Instance& instance) {
  const auto found =
      std::find_if(costs.begin(), costs.end(), [&](const auto& cost) { return cost.instance == instance; });
  STOF_CHECK(found != costs.end());
  return *found;
}

double items_per_measured(const AttentionProblem& problem) {
  return static_cast<double>(problem.shape.batch) / static_cast<double>(problem.stats.extent.batch);
}

double traffic_us(const AttentionProblem& problem) {
  const AttentionShape& s = problem.shape;
  const double rows = 2.0 * static_cast<double>(s.heads * s.queries) + 2.0 * static_cast<double>(s.kv_heads * s.keys);
  return rows * static_cast<double>(s.batch * s.head_dim) * static_cast<double>(size_of(s.dtype)) / kBytesPerUs;
}

// Row blocks as lists of steps.
struct Lists {
  const AttentionProblem& problem;
  const BlockStats& stats;
  const ListTimes& times;
  int tiles;  // of a step
};

SplitEstimate estimate(const Lists& lists, int most_steps) {
  const ListTimes& times = lists.times;
  SplitEstimate estimate{.most_steps = most_steps};
  for (const BlockStats::Bin& bin : lists.stats.row_blocks) {
    const double steps = std::ceil((bin.full + bin.partial) / lists.tiles);
    const double parts = most_steps > 0 ? std::max(1.0, std::ceil(steps / most_steps)) : 1;
    const double count = static_cast<double>(bin.count) * items_per_measured(lists.problem);
    const double part_us = parts > 1 ? times.part : 0;
    estimate.total_us += count * (steps * times.step + parts * (times.item + part_us));
    estimate.heaviest_us =
        std::max(estimate.heaviest_us, std::ceil(steps / parts) * times.last_step + times.item + part_us);
    if (parts > 1) estimate.parts += static_cast<std::int64_t>(count * parts);
  }
  return estimate;
}

double predict_lists(const AttentionProblem& problem, double teams, const ListTimes& times,
                     const SplitEstimate& split) {
  // The last row blocks are the lightest ones.
  const double last = 0.5 * times.item;
  return kLaunchUs + std::max({split.total_us / teams + last, split.heaviest_us, traffic_us(problem)});
}

}  // namespace

SplitEstimate estimate_split(const AttentionProblem& problem, const BlockStats& stats, const StreamInstance& instance,
                             int most_steps) {
  return estimate({problem, stats, cost_of(kStreamCosts, instance).times, instance.tiles}, most_steps);
}
SplitEstimate estimate_split(const AttentionProblem& problem, const BlockStats& stats, const MmaInstance& instance,
                             int most_steps) {
  return estimate({problem, stats, cost_of(kMmaCosts, instance).times, 1}, most_steps);
}

double predict_stream(const AttentionProblem& problem, const DeviceCaps& caps, const StreamInstance& instance,
                      const SplitEstimate& split) {
  const double teams = static_cast<double>(caps.cores * instance.ctas * instance.teams);
  return predict_lists(problem, teams, cost_of(kStreamCosts, instance).times, split);
}

double predict_mma(const AttentionProblem& problem, const DeviceCaps& caps, const MmaInstance& instance,
                   const SplitEstimate& split) {
  const int ctas = ctas_of(instance, caps);
  // Fewer CTAs than were measured have the multiprocessor to themselves, but hide less.
  const double teams = static_cast<double>(caps.cores * (ctas + instance.ctas)) / 2;
  return predict_lists(problem, teams, cost_of(kMmaCosts, instance).times, split);
}

double predict_band(const AttentionProblem& problem, const DeviceCaps& caps, const BandInstance& instance) {
  const BandCost& cost = cost_of(kBandCosts, instance);
  const std::int64_t rows = 64 * instance.parts, blocks = (problem.shape.queries + rows - 1) / rows;
  const double ctas = static_cast<double>(caps.cores * instance.ctas);
  const double rounds = static_cast<double>(blocks * problem.shape.batch * problem.shape.heads) / ctas;
  // CTAs of a last, incomplete round have the multiprocessor's bandwidth to themselves.
  const double work = (0.5 * (rounds + std::ceil(rounds))) * cost.round;
  return kLaunchUs - 1.5 + std::max(work, cost.traffic * traffic_us(problem));
}

double predict_gather(const AttentionProblem& problem, const DeviceCaps& caps, const GatherInstance& instance,
                      int most_units) {
  const GatherCost& cost = cost_of(kGatherCosts, instance);
  double total = 0, heaviest = 0;
  for (const KeyPieces::Bin& bin : problem.key_pieces.row_blocks) {
    const double units = std::max(1.0, std::ceil(static_cast<double>(bin.pieces) / instance.pieces));
    const double parts = most_units > 0 ? std::ceil(units / most_units) : 1;
    const double part = cost.item + (parts > 1 ? cost.part : 0);
    total += static_cast<double>(bin.count) * items_per_measured(problem) * (units * cost.unit + parts * part);
    heaviest = std::max(heaviest, std::ceil(units / parts) * cost.unit + part);
  }
  const double ctas = static_cast<double>(caps.cores * instance.ctas);
  return kLaunchUs + std::max({total / ctas + 0.5 * (cost.unit + cost.item), heaviest, 1.22 * traffic_us(problem)});
}

double predict_decode(const AttentionProblem& problem) {
  constexpr double kTileKeys = 64;
  const AttentionShape& s = problem.shape;
  double tiles = 0;
  for (const BlockStats& stats : problem.stats.blocks) {
    if (stats.block_q != 64 || stats.block_kv != 64) continue;
    for (const BlockStats::Bin& bin : stats.row_blocks)
      tiles += static_cast<double>(bin.count) * (bin.full + bin.partial);
  }
  // Heads of a key head share tiles.
  tiles *= items_per_measured(problem) * static_cast<double>(s.kv_heads) / static_cast<double>(s.heads);
  const double bytes = tiles * kTileKeys * 2 * static_cast<double>(s.head_dim) * static_cast<double>(size_of(s.dtype));
  const DecodeCost& cost = bytes < kCacheBytes ? kDecodeFromCache : kDecodeFromMemory;
  return cost.launch + bytes / cost.bytes_per_us;
}

double predict_rows(const AttentionProblem& problem, const DeviceCaps& caps) {
  const double rows = static_cast<double>(problem.shape.batch * problem.shape.heads * problem.shape.queries);
  const double work = problem.stats.allowed_pairs * items_per_measured(problem) *
                      static_cast<double>(2 * problem.shape.head_dim + 64) / kRowPairsPerUs;
  const double warps = std::max(1.0, rows);
  // A row is one warp's: few rows leave most multiprocessors idle.
  const double busy = std::min(static_cast<double>(caps.cores), std::max(1.0, warps / 8));
  return kLaunchUs + work / busy + 0.02 * rows / static_cast<double>(caps.cores);
}

}  // namespace stof::cuda
