// SPDX-License-Identifier: Apache-2.0
// How long a matmul should take: steps of a tile at a rate between those of the tensor cores, of an SM's share of the
// L2, of all SMs together and of loads in flight; as many as the busiest SM has; what comes before the first and after
// the last of them; and never less than its bytes take. Constants: docs/kernels/gemm.md.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/shared/gemv.h"
#include "src/backend/cuda/matmul/settings.h"

namespace stof::cuda {
namespace {

// Fitted to bench/results/a154e4f-h200-gemm.json, but for those that say so; the two of sharing and kActivationNs
// (gelu by tanh.approx) to measurements like bench/results/9235f2c-h200-gemm.json.
constexpr double kCyclesPerUs = 1534;       // that the clock keeps under load
constexpr double kMultiplyPerCycle = 2048;  // of an SM, in 16 bits, by its data sheet
constexpr double kSmBytesPerUs = 243e3;     // from the L2, of one SM
constexpr double kL2BytesPerUs = 16.1e6;    // of all of them, many of which ask for the same
constexpr double kLoadUs = 0.45;            // of one load, shared by those in flight
constexpr double kEarlyShare = 0.45;        // of the steps that a ring holds, done while the kernel in front ends
constexpr double kDramBytesPerUs = 3.9e6, kCachedBytesPerUs = 9e6;  // of older measurements
constexpr double kCachedBytes = 40e6;  // operands that stay in the L2 from kernel to kernel
constexpr double kLaunchUs = 1.13, kFirstSteps = 7.8, kMomentsReadUs = 0.29;
constexpr double kAloneUs = 0.5;     // where the kernel in front leaves no shared memory to start early in
constexpr double kClusterUs = 0.67;  // and what clusters wait longer
constexpr double kShareUs = 0.24, kShareLoad = 1.2;            // CTAs that share the weight: their wait, every load
constexpr double kNextClustersUs = 5, kSentBytesPerUs = 35e3;  // of partial sums, from an SM to others
constexpr double kWriteUs = 0.27;                              // of a tile, and for each value of a thread, in ns:
constexpr double kPlainNs = 2.1, kBiasNs = 2.3, kActivationNs = 9, kXNormNs = 4.3, kResidualNs = 5.2,
                 kResidualNormNs = 10.8, kMomentsNs = 9.7;
// Of an activation that finds norm and bias done for the whole tile, beside another team's products: gelu of `up` takes
// 0.4 us in four tiles of 128x192, and nothing in sixteen (bench/results/h100-gemm-columns-first.txt).
constexpr double kHiddenActivationNs = 0.5;
// What a turn adds: 4 to 5 us in three tiles of 128x192 by two warpgroups, 20 in twelve; and a little less, since in
// whole models the pass that it saves is power, too (bench/results/h200-turned-heads.txt).
constexpr double kTurnedNs = 16;
// What normalising x adds inside a whole model to what the matmul takes by itself. For each tile of an SM past the
// first and at most so many, counted in tiles of 128 by 192, so that it orders schemes and not settings: by what
// leaving norms to matmuls loses, 4 to 17 us a layer of 4096 rows (bench/results/8d5bb4a-h200-scheme-nodes.txt; 8d5bb4a
// is in the history as f76a244). And for each tile in a row: all of them read the moments of the same rows, at once
// where rows are few. Whole models of 128 rows take 1 us less for each such matmul by 24 or 32 tiles in a row than by
// 48 or 64 (`analytical` and `tuned` of (1, 128) in bench/results/h200-fusion.json as it was at 3a36d30: 288.3 and
// 264.2).
constexpr double kFollowUs = 2, kMostFollowing = 3, kFollowTile = 128 * 192, kReaderUs = 0.027;
constexpr double kTurnShare = 0.09;  // of a write, that two teams do not hide from each other
constexpr double kLone = 2.9;        // times as long as beside other warps a value takes one team
constexpr double kBlasLaunchUs = 0.77, kRowKernelUs = 1.6, kRowKernelBytesPerUs = 3.25e6;  // cuBLASLt's, beside ours

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

double bytes_us(const MatmulProblem& p) {
  const auto rows = static_cast<double>(p.rows), columns = static_cast<double>(p.columns),
             inner = static_cast<double>(p.inner);
  const double bytes =
      2 * (rows * inner + columns * inner + rows * static_cast<double>(p.out_columns()) * (p.residual ? 2 : 1));
  return 1.15 * bytes / (bytes > kCachedBytes ? kDramBytesPerUs : kCachedBytesPerUs);
}

double activation_ns(const MatmulProblem& p, const MatmulSetting& s, std::int64_t tiles) {
  if (p.activation == Activation::none) return 0;
  const bool many_sums = s.rows / (64 * s.warpgroups) * s.columns >= 384;  // kManySums of the kernel
  return s.teams > 1 && tiles > 1 && many_sums ? kHiddenActivationNs : kActivationNs;
}

// `tiles`: of an SM.
double value_us(const MatmulProblem& p, const MatmulSetting& s, std::int64_t tiles) {
  const double ns = kPlainNs + (p.bias ? kBiasNs : 0) + activation_ns(p, s, tiles) + (p.x_norm ? kXNormNs : 0) +
                    (p.residual ? kResidualNs : 0) + (p.residual_norm ? kResidualNormNs : 0) +
                    (p.moments ? kMomentsNs : 0) + (p.turned.heads > 0 ? kTurnedNs : 0);
  return ns / 1000;
}

// Whether CTAs of the kernel behind find shared memory before those of this one end, and begin to load weights.
bool leaves_room(const MatmulSetting& s, std::int64_t parts, const DeviceCaps& device) {
  return 2 * std::min<std::int64_t>(parts, std::int64_t{device.cores} * ctas_of(s)) <= device.cores * most_ctas_of(s);
}

struct Step {
  double bytes = 0, us = 0;
};

// Four limits: one that is far above the others is the time, those that are near each other add to it.
Step step_of(const MatmulSetting& s, int active, std::int64_t at_once) {
  const double bytes = (s.rows + static_cast<double>(s.columns) / s.share) * s.depth * 2;
  double sum = 0;
  for (const double limit : {static_cast<double>(s.rows) * s.columns * s.depth / kMultiplyPerCycle / kCyclesPerUs,
                             bytes / kSmBytesPerUs, bytes * active / kL2BytesPerUs,
                             kLoadUs * (s.share > 1 ? kShareLoad : 1) / (s.stages - 2) / static_cast<double>(at_once)})
    sum += std::pow(limit, 4);
  return {bytes, std::pow(sum, 0.25)};
}

double following_us(const MatmulProblem& p, const DeviceCaps& device, const MatmulSetting& s) {
  if (!p.x_norm) return 0;
  const double tiles = static_cast<double>(p.rows) * static_cast<double>(p.columns) / (device.cores * kFollowTile);
  return kFollowUs * std::clamp(tiles - 1, 0.0, kMostFollowing) +
         kReaderUs * static_cast<double>(ceil_div(p.columns, s.columns));
}

double tile_us(const MatmulProblem& p, const DeviceCaps& device, const MatmulSetting& s) {
  // CTAs that share the weight come together, though the last of them may have no rows.
  const std::int64_t parts = ceil_div(p.rows, s.rows * s.share) * s.share * ceil_div(p.columns, s.columns) * s.split;
  const std::int64_t of_busiest = ceil_div(parts, device.cores),
                     at_once = std::min<std::int64_t>(ctas_of(s), of_busiest);
  const auto busiest = static_cast<double>(of_busiest), rounds = static_cast<double>(ceil_div(of_busiest, at_once));
  const std::int64_t steps = ceil_div(ceil_div(p.inner, s.depth), s.split);
  const Step step = step_of(s, static_cast<int>(std::min<std::int64_t>(device.cores, parts)), at_once);
  const double of_tile = static_cast<double>(steps) * step.us,
               multiply = busiest * of_tile -
                          kEarlyShare * static_cast<double>(std::min<std::int64_t>(s.stages, steps)) * step.us,
               values = value_us(p, s, of_busiest) * s.rows * s.columns / (128.0 * s.warpgroups * s.split);
  const double work = s.teams == 1
                          ? multiply + rounds * (kWriteUs + values)
                          : std::max(multiply + busiest * values / s.teams, busiest * (of_tile + kLone * values) / 2) +
                                kWriteUs * (1 + kTurnShare * busiest);
  double us = kLaunchUs + kFirstSteps * step.bytes / kSmBytesPerUs +
              (p.x_norm || p.residual_norm ? kMomentsReadUs : 0) + following_us(p, device, s) +
              std::max(work, bytes_us(p));
  if (s.share > 1) us += kShareUs;
  if (!leaves_room(s, parts, device)) us += kAloneUs + (s.split > 1 ? kClusterUs : 0);
  if (s.split > 1) {
    const double sent = 4.0 * s.rows * s.columns * (s.split - 1) / s.split;
    us += rounds * sent / kSentBytesPerUs + (rounds - 1) * kNextClustersUs;
  }
  return us;
}

// By the rates that data sheets of 8.x give for an SM; not fitted to any measurement. The epilogue is as exposed as the
// other CTAs of the SM leave it.
double mma_us(const MatmulProblem& p, const DeviceCaps& device, const MatmulSetting& s) {
  constexpr double kMmaPerCycle = 1024, kMmaCyclesPerUs = 1400, kMmaBytesPerUs = 80e3, kMmaLaunchUs = 2, kMmaCtas = 2;
  const std::int64_t parts = ceil_div(p.rows, s.rows) * ceil_div(p.columns, s.columns);
  const std::int64_t of_busiest = ceil_div(parts, device.cores);
  const double tile = static_cast<double>(s.rows) * s.columns, bytes = (s.rows + s.columns) * s.depth * 2;
  const double step = std::max(tile * s.depth / kMmaPerCycle / kMmaCyclesPerUs, bytes / kMmaBytesPerUs);
  const auto steps = static_cast<double>(ceil_div(p.inner, s.depth));
  const double write = kWriteUs + value_us(p, s, of_busiest) * tile / (128 * std::max(1.0, s.warpgroups / 4.0));
  return kMmaLaunchUs + following_us(p, device, s) +
         std::max(static_cast<double>(of_busiest) * (steps * step + write / kMmaCtas), bytes_us(p));
}

// A kernel that reads the weight once: at the rate of memory, and a little at that of the busiest SM, which reads more
// than its share; less where an SM has one CTA. Each CTA brings x first. By bench/results/h200-gemv.json its choices
// lose 2 % to the best of three on the mean of 31 products, 14 at most.
double gemv_us(const MatmulProblem& p, const DeviceCaps& device, const MatmulSetting& s) {
  constexpr double kGemvLaunchUs = 1.5, kGemvBytesPerUs = 4.27e6, kGemvCtaBytesPerUs = 170e3, kGemvTileUs = 0.09;
  constexpr double kGemvXBytesPerUs = 60e3, kGemvBusiestShare = 0.21, kGemvLone = 0.07;
  const std::int64_t tiles = ceil_div(p.columns, s.columns),
                     ctas = std::min(tiles, std::int64_t{device.cores} * gemv_ctas(p, s)),
                     rounds = ceil_div(tiles, ctas), of_sm = ceil_div(ctas, device.cores);
  const double of_column = 2 * static_cast<double>(p.inner), all = of_column * static_cast<double>(p.columns),
               of_cta = of_column * static_cast<double>(rounds * s.columns),
               busiest = of_cta * static_cast<double>(of_sm * device.cores),
               x = of_column * static_cast<double>(p.rows * of_sm);
  const double memory = ((1 - kGemvBusiestShare) * all + kGemvBusiestShare * busiest) / kGemvBytesPerUs;
  return kGemvLaunchUs + (of_sm == 1 ? 1 + kGemvLone : 1) * std::max(memory, of_cta / kGemvCtaBytesPerUs) +
         kGemvTileUs * static_cast<double>(rounds) + x / kGemvXBytesPerUs;
}

// Of few rows: bench/results/h200-gemv.json has cuBLASLt by itself from 13 % below to 50 % above, and where it chooses
// worst, which nothing predicts, 2.7 times as long.
double blas_few_rows_us(const MatmulProblem& p) {
  constexpr double kBlasFewRowsUs = 3.6, kBlasBytesPerUs = 4.05e6;
  return kBlasFewRowsUs + 2 * static_cast<double>(p.columns) * static_cast<double>(p.inner) / kBlasBytesPerUs;
}

// As our best tile, and what row kernels do after it.
double cublaslt_us(MatmulProblem p, const DeviceCaps& device) {
  const bool after =
      p.activation == Activation::gelu || p.activation == Activation::silu || p.activation == Activation::tanh;
  if (after) p.activation = Activation::none, p.bias = false;
  double best = std::numeric_limits<double>::infinity();
  for (const MatmulSetting& like : wgmma_settings())
    if (like.split <= ceil_div(p.inner, like.depth)) best = std::min(best, tile_us(p, device, like));
  best += kBlasLaunchUs;
  if (p.rows <= GemvGrid::kMostRows) best = blas_few_rows_us(p);
  if (!after) return best;
  return best + kRowKernelUs + 4 * static_cast<double>(p.rows) * static_cast<double>(p.columns) / kRowKernelBytesPerUs;
}

}  // namespace

double predicted_us(const MatmulProblem& problem, const DeviceCaps& device, const MatmulSetting& setting) {
  if (problem.rows == 0 || problem.columns == 0) return kLaunchUs;
  if (setting.kernel == MatmulSetting::Kernel::cublaslt) return cublaslt_us(problem, device);
  if (setting.kernel == MatmulSetting::Kernel::gemv) return gemv_us(problem, device, setting);
  if (setting.kernel == MatmulSetting::Kernel::mma) return mma_us(problem, device, setting);
  return tile_us(problem, device, setting);
}

}  // namespace stof::cuda
