// SPDX-License-Identifier: Apache-2.0
// How long a matmul should take: steps of a tile at the rate of what is slowest - the tensor cores, an SM's share of
// the L2, all SMs together, or too few loads in flight -, as many as the busiest SM has; what comes before the first
// and after the last of them; and never less than its bytes take. Constants: docs/kernels/gemm.md.
#include <algorithm>
#include <array>

#include "src/backend/cuda/matmul/settings.h"

namespace stof::cuda {
namespace {

constexpr double kCyclesPerUs = 1450;       // that the clock keeps under load
constexpr double kMultiplyPerCycle = 2048;  // of an SM, in 16 bits
constexpr double kSmBytesPerUs = 135e3;     // from the L2, of one SM
constexpr double kL2BytesPerUs = 11e6;      // of all of them, many of which ask for the same
constexpr double kLoadUs = 0.4;             // of one load, shared by those in flight
constexpr double kDramBytesPerUs = 3.9e6, kCachedBytesPerUs = 9e6;
constexpr double kCachedBytes = 40e6;  // operands that stay in the L2 from kernel to kernel
constexpr double kLaunchUs = 0.45, kFirstSteps = 3;
constexpr double kSplitUs = 0.6, kSentBytesPerUs = 30e3;  // of partial sums, from an SM to others
constexpr double kWriteUs = 0.15;                         // of a tile, and for each value of a thread, in ns:
constexpr double kPlainNs = 2, kBiasNs = 0.5, kActivationNs = 7, kXNormNs = 3, kResidualNs = 8, kResidualNormNs = 6,
                 kMomentsNs = 7;
constexpr double kTurnShare = 0.3;  // of the time of writing, that two teams do not hide from each other
constexpr double kBlasLaunchUs = 0.7, kRowKernelUs = 1.6, kRowKernelBytesPerUs = 3.25e6;  // cuBLASLt's, beside ours

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

double bytes_us(const MatmulProblem& p) {
  const auto rows = static_cast<double>(p.rows), columns = static_cast<double>(p.columns),
             inner = static_cast<double>(p.inner);
  const double bytes =
      2 * (rows * inner + columns * inner + rows * static_cast<double>(p.out_columns()) * (p.residual ? 2 : 1));
  return 1.15 * bytes / (bytes > kCachedBytes ? kDramBytesPerUs : kCachedBytesPerUs);
}

double write_us(const MatmulProblem& p, const MatmulSetting& s) {
  const double ns = kPlainNs + (p.bias ? kBiasNs : 0) + (p.activation != Activation::none ? kActivationNs : 0) +
                    (p.x_norm ? kXNormNs : 0) + (p.residual ? kResidualNs : 0) +
                    (p.residual_norm ? kResidualNormNs : 0) + (p.moments ? kMomentsNs : 0);
  return kWriteUs + ns / 1000 * s.rows * s.columns / (128.0 * s.warpgroups * s.split);
}

double tile_us(const MatmulProblem& p, const DeviceCaps& device, const MatmulSetting& s) {
  const std::int64_t parts = ceil_div(p.rows, s.rows) * ceil_div(p.columns, s.columns) * s.split;
  const std::int64_t of_busiest = ceil_div(parts, device.cores),
                     at_once = std::min<std::int64_t>(ctas_of(s), of_busiest);
  const auto steps = static_cast<double>(of_busiest * ceil_div(ceil_div(p.inner, s.depth), s.split));
  const auto rounds = static_cast<double>(ceil_div(of_busiest, at_once));
  const double bytes = (s.rows + s.columns) * s.depth * 2;
  const double step = std::max(
      {static_cast<double>(s.rows) * s.columns * s.depth / kMultiplyPerCycle / kCyclesPerUs, bytes / kSmBytesPerUs,
       bytes * static_cast<double>(std::min<std::int64_t>(device.cores, parts)) / kL2BytesPerUs,
       kLoadUs / (s.stages - 2) / static_cast<double>(at_once)});
  const double write = write_us(p, s), multiply = steps * step;
  const double exposed = s.teams > 1 ? 1 + kTurnShare * static_cast<double>(of_busiest) : rounds;
  const double sent = 4.0 * s.rows * s.columns * (s.split - 1) / s.split;
  return kLaunchUs + kFirstSteps * bytes / kSmBytesPerUs + std::max(multiply + exposed * write, bytes_us(p)) +
         (s.split > 1 ? rounds * (kSplitUs + sent / kSentBytesPerUs) : 0);
}

// By the rates that data sheets of 8.x give for an SM; not fitted to any measurement. The epilogue is as exposed as the
// other CTAs of the SM leave it.
double mma_us(const MatmulProblem& p, const DeviceCaps& device, const MatmulSetting& s) {
  constexpr double kMmaPerCycle = 1024, kMmaCyclesPerUs = 1400, kMmaBytesPerUs = 80e3, kMmaLaunchUs = 2, kMmaCtas = 2;
  const std::int64_t parts = ceil_div(p.rows, s.rows) * ceil_div(p.columns, s.columns);
  const auto of_busiest = static_cast<double>(ceil_div(parts, device.cores));
  const double tile = static_cast<double>(s.rows) * s.columns, bytes = (s.rows + s.columns) * s.depth * 2;
  const double step = std::max(tile * s.depth / kMmaPerCycle / kMmaCyclesPerUs, bytes / kMmaBytesPerUs);
  const auto steps = static_cast<double>(ceil_div(p.inner, s.depth));
  MatmulSetting as_wgmma = s;
  as_wgmma.warpgroups = std::max(1, s.warpgroups / 4);
  return kMmaLaunchUs + std::max(of_busiest * (steps * step + write_us(p, as_wgmma) / kMmaCtas), bytes_us(p));
}

// As if it had tiles like ours, and what row kernels do after it.
double cublaslt_us(MatmulProblem p, const DeviceCaps& device) {
  constexpr auto kWgmma = MatmulSetting::Kernel::wgmma;
  constexpr std::array<MatmulSetting, 6> kLike{{{kWgmma, 64, 64, 64, 6, 1, 1, 1},
                                                {kWgmma, 64, 64, 64, 4, 1, 1, 4},
                                                {kWgmma, 64, 192, 64, 6, 1, 1, 1},
                                                {kWgmma, 128, 128, 64, 5, 2, 1, 1},
                                                {kWgmma, 128, 192, 64, 4, 2, 1, 1},
                                                {kWgmma, 128, 256, 64, 3, 2, 1, 1}}};
  const bool after = p.activation == Activation::gelu || p.activation == Activation::silu;
  if (after) p.activation = Activation::none, p.bias = false;
  double best = tile_us(p, device, kLike[0]);
  for (const MatmulSetting& like : kLike) best = std::min(best, tile_us(p, device, like));
  best += kBlasLaunchUs;
  if (!after) return best;
  return best + kRowKernelUs + 4 * static_cast<double>(p.rows) * static_cast<double>(p.columns) / kRowKernelBytesPerUs;
}

}  // namespace

double predicted_us(const MatmulProblem& problem, const DeviceCaps& device, const MatmulSetting& setting) {
  if (setting.kernel == MatmulSetting::Kernel::cublaslt) return cublaslt_us(problem, device);
  if (setting.kernel == MatmulSetting::Kernel::mma) return mma_us(problem, device, setting);
  return tile_us(problem, device, setting);
}

}  // namespace stof::cuda
