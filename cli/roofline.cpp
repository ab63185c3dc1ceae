// SPDX-License-Identifier: Apache-2.0
#include "cli/roofline.h"

#include <algorithm>
#include <cstring>

#include "cli/call_times.h"
#include "src/backend/contract.h"

namespace stof::cli {
namespace {

constexpr double kSecondsEach = 0.1;

// On a device that works beside the host, many at a time.
double matmul_gflops_there(const Device& device, DType dtype) {
  constexpr int kTogether = 10;
  constexpr struct { std::int64_t rows, in, out; } kSize{8192, 4096, 4096};
  const MatmulOperations& matmul = device.backend->matmul;
  const std::unique_ptr<DeviceStream> stream = device.backend->open_stream(device);
  const auto values = [&](std::int64_t count) {
    return stream->device_memory(static_cast<std::size_t>(count) * size_of(dtype));
  };
  const Tensor weight(DType::f32, {kSize.out, kSize.in});
  std::fill_n(weight.as<float>(), weight.size(), 0.5f);
  const PackedLinear packed =
      matmul.pack({.weight = {weight.view()}, .bias = {}, .activation = {}, .dtype = dtype, .device = &device});
  const auto x = values(kSize.rows * kSize.in), out = values(kSize.rows * kSize.out);
  const auto workspace = stream->device_memory(matmul.workspace_bytes);
  const LinearCall call{.x = x.get(),
                        .out = out.get(),
                        .residual = nullptr,
                        .rows = kSize.rows,
                        .queue = {.device = &device,
                                  .stream = stream->handle(),
                                  .workspace = workspace.get(),
                                  .workspace_bytes = matmul.workspace_bytes}};
  const auto run = [&] {
    for (int i = 0; i < kTogether; ++i) matmul.run(packed, call);
    stream->synchronize();
  };
  return 2e-3 * kTogether * static_cast<double>(kSize.rows * kSize.in * kSize.out) /
         time_calls(run, kSecondsEach).best_us;
}

double copy_gb_s() {
  constexpr std::int64_t kPieces = 64, kBytesEach = 1 << 21;  // 128 MiB: larger than a last-level cache
  const Tensor from(DType::boolean, {kPieces * kBytesEach}), to(DType::boolean, {kPieces * kBytesEach});
  const auto copy = [&] {
#pragma omp parallel for
    for (std::int64_t i = 0; i < kPieces; ++i)
      std::memcpy(to.as<char>() + i * kBytesEach, from.as<char>() + i * kBytesEach, kBytesEach);
  };
  std::memset(from.data(), 1, from.bytes());
  return 2e-3 * static_cast<double>(from.bytes()) / time_calls(copy, kSecondsEach).best_us;
}

// Operations that wait for one another, one a cycle.
double clock_ghz() {
  constexpr int kSteps = 1 << 22;
  const auto chain = [] {
    std::uint64_t x = 1, y = 3;
    for (int i = 0; i < kSteps; i += 8)
      for (int step = 0; step < 8; ++step) {
        x ^= y;
        asm volatile("" : "+r"(x), "+r"(y));
      }
  };
  return 1e-3 * kSteps / time_calls(chain, 0.02).best_us;
}

}  // namespace

Roofline measure_roofline(const Device& device) {
  if (device.backend->open_stream != nullptr)
    return {.f32_gflops = matmul_gflops_there(device, DType::f32),
            .bf16_gflops = matmul_gflops_there(device, DType::bf16),
            .copy_gb_s = copy_gb_s(),
            .clock_ghz = clock_ghz()};
  Roofline roofline;
  roofline.f32_matmul = std::make_shared<PeakMatmul>(DType::f32);
  roofline.f32_gflops = roofline.f32_matmul->best_gflops();
  if (device.caps.bf16_dot) {
    roofline.bf16_matmul = std::make_shared<PeakMatmul>(DType::bf16);
    roofline.bf16_gflops = roofline.bf16_matmul->best_gflops();
  }
  roofline.copy_gb_s = copy_gb_s();
  roofline.clock_ghz = clock_ghz();
  return roofline;
}

Json json_of(const Roofline& roofline) {
  return {{"matmul_f32_gflops", roofline.f32_gflops},
          {"matmul_bf16_gflops", roofline.bf16_gflops},
          {"copy_gb_s", roofline.copy_gb_s},
          {"clock_ghz", roofline.clock_ghz}};
}

}  // namespace stof::cli
