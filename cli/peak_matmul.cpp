// SPDX-License-Identifier: Apache-2.0
#include "cli/peak_matmul.h"

#include "cli/call_times.h"
#include "src/base/hash.h"
#include "src/tensor/convert.h"

namespace stof::cli {
namespace {

constexpr double kSecondsEach = 0.1;

// In [-1, 1), another one for each of the seeds.
Tensor random_matrix(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  Tensor matrix(DType::f32, {rows, columns});
  float* const values = matrix.as<float>();
  for (std::int64_t i = 0; i < matrix.size(); ++i)
    values[i] =
        static_cast<float>(static_cast<std::int64_t>(splitmix64(seed + static_cast<std::uint64_t>(i)))) * 0x1p-63f;
  return matrix;
}

}  // namespace

PeakMatmul::PeakMatmul(DType dtype) {
  // Weights of 4 to 9 MB in fp32: larger than the caches of a core, as those of models are.
  try_size(256, 1024, 1024, dtype);
  try_size(256, 768, 3072, dtype);
  try_size(256, 3072, 768, dtype);
}

void PeakMatmul::try_size(std::int64_t rows, std::int64_t in, std::int64_t out, DType dtype) {
  const Tensor weight = random_matrix(out, in, 1);
  Tensor x = converted(random_matrix(rows, in, std::uint64_t{1} << 32).view(), dtype), result(dtype, {rows, out});
  const LinearSpec spec{.weight = {weight.view()}, .bias = {}, .activation = {}, .dtype = dtype};
  const LinearCall call{.x = x.data(), .out = result.data(), .residual = nullptr, .rows = rows};
  const double gflop = 2e-9 * static_cast<double>(rows * in * out);
  bool better = false;
  const auto words = open_device("cpu").caps.bf16_dot ? cpu::Bf16Words::pairs : cpu::Bf16Words::widened;
  for (const auto& linear : {cpu::pack_panels(spec, words), cpu::pack_onednn(spec)}) {
    const CallTimes times = time_calls([&] { linear->run(call); }, kSecondsEach);
    if (linear_ != nullptr && gflop / times.best_us <= gflop_ / best_us_) continue;
    linear_ = linear, gflop_ = gflop, best_us_ = times.best_us, better = true;
  }
  if (better) x_ = std::move(x), out_ = std::move(result);
}

double PeakMatmul::gflops_now(double seconds) const {
  const LinearCall call{.x = x_.data(), .out = out_.data(), .residual = nullptr, .rows = x_.shape()[0]};
  return 1e6 * gflop_ / mean_us_within([&] { linear_->run(call); }, seconds);
}

}  // namespace stof::cli
