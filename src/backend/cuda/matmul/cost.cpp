// SPDX-License-Identifier: Apache-2.0
// How long a matmul should take: steps of a tile at the rate of the tensor cores or of the L2, whichever is slower, as
// many as the busiest multiprocessor has; what comes before the first and after the last of them; and never less than
// its bytes take.
#include <algorithm>
#include <array>

#include "src/backend/cuda/matmul/settings.h"

namespace stof::cuda {
namespace {

constexpr double kCyclesPerUs = 1600;       // under load
constexpr double kMultiplyPerCycle = 2048;  // of an SM, in 16 bits
constexpr double kTensorShare = 0.92;       // of that rate, which a well fed pipeline reaches
constexpr double kL2BytesPerCycle = 46;     // of an SM, all of them loading
constexpr double kDramBytesPerUs = 4.0e6;   // copy rate
constexpr double kL2BytesPerUs = 8.0e6;
constexpr double kL2Bytes = 40e6;  // operands that stay there between kernels
constexpr double kLaunchUs = 1.9;  // from the kernel before to the first step
constexpr double kSplitUs = 0.8;   // exchange of partial sums
constexpr double kRowKernelUs = 1.6;
constexpr double kEpilogueCycles = 500, kEpilogueCyclesPerValue = 7;  // values of a thread

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

double bytes_of(const MatmulProblem& p) {
  const auto rows = static_cast<double>(p.rows), columns = static_cast<double>(p.columns),
             inner = static_cast<double>(p.inner);
  return 2 * (rows * inner + columns * inner + rows * columns * (p.residual ? 2 : 1));
}

double bytes_us(double bytes) { return bytes / (bytes > kL2Bytes ? kDramBytesPerUs : kL2BytesPerUs); }

double tile_us(const MatmulProblem& p, const DeviceCaps& device, const MatmulSetting& s) {
  const std::int64_t tiles =
      ceil_div(p.rows, std::int64_t{s.rows} * s.cluster) * s.cluster * ceil_div(p.columns, s.columns);
  const std::int64_t of_busiest = ceil_div(tiles * s.split, device.cores);
  const auto steps = static_cast<double>(ceil_div(ceil_div(p.inner, s.depth), s.split));
  const double multiply = static_cast<double>(s.rows) * s.columns * s.depth / kMultiplyPerCycle / kTensorShare;
  const double load = (s.rows + static_cast<double>(s.columns) / s.cluster) * s.depth * 2 / kL2BytesPerCycle;
  const int threads = 128 * s.warpgroups;
  const double epilogue =
      kEpilogueCycles + kEpilogueCyclesPerValue * s.rows * s.columns / (static_cast<double>(threads) * s.split);
  // A second team, or a second CTA of the SM, multiplies meanwhile.
  const std::int64_t exposed = s.teams > 1 ? 1 : ceil_div(of_busiest, ctas_of(s));
  const double cycles =
      static_cast<double>(of_busiest) * steps * std::max(multiply, load) + static_cast<double>(exposed) * epilogue;
  return cycles / kCyclesPerUs + (s.split > 1 ? kSplitUs : 0);
}

// What row kernels do after cuBLASLt.
double after_us(const MatmulProblem& p) {
  if (p.activation != Activation::gelu && p.activation != Activation::silu) return 0;
  return kRowKernelUs + bytes_us(4 * static_cast<double>(p.rows) * static_cast<double>(p.columns));
}

double cublaslt_us(const MatmulProblem& p, const DeviceCaps& device) {
  constexpr auto kWgmma = MatmulSetting::Kernel::wgmma;
  constexpr std::array<MatmulSetting, 4> kLike{{{kWgmma, 128, 256, 64, 3, 2, 1, 2, 1},
                                                {kWgmma, 128, 128, 64, 5, 2, 1, 1, 1},
                                                {kWgmma, 64, 128, 64, 3, 1, 1, 1, 1},
                                                {kWgmma, 64, 64, 64, 6, 1, 1, 1, 1}}};
  double best = tile_us(p, device, kLike[0]);
  for (const MatmulSetting& like : kLike) best = std::min(best, tile_us(p, device, like));
  return kLaunchUs + std::max(best, bytes_us(bytes_of(p))) + after_us(p);
}

}  // namespace

double predicted_us(const MatmulProblem& problem, const DeviceCaps& device, const MatmulSetting& setting) {
  if (setting.kernel == MatmulSetting::Kernel::cublaslt) return cublaslt_us(problem, device);
  return kLaunchUs + std::max(tile_us(problem, device, setting), bytes_us(bytes_of(problem)));
}

}  // namespace stof::cuda
