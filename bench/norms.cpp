// SPDX-License-Identifier: Apache-2.0
// Layer norms of rows by both kernels that take them, row_norm_kernel on grids of several sizes: device time of one,
// of many that a graph launches one behind the other. Every result is compared, bit for bit, with sum_norm_kernel's.
//   bench_norms COMMIT [ROWSxCOLUMNS...] >bench/results/COMMIT-h200-norms.json
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/replay.h"
#include "kernels/shared/rows.h"
#include "src/backend/cuda/attention/kernel_store.h"
#include "src/backend/cuda/driver/device.h"
#include "src/backend/cuda/driver/device_memory.h"
#include "src/backend/cuda/rows.h"
#include "src/base/error.h"
#include "src/tensor/half.h"

namespace stof::cuda {
namespace {

using Json = nlohmann::ordered_json;

constexpr DType kDType = DType::f16;
constexpr int kReplays = 15;
constexpr std::int64_t kMostPairs = 32, kRotatedBytes = std::int64_t{400} << 20;
constexpr unsigned kSumThreads = 128, kSumRows = 4;  // of sum_norm_kernel, as src/backend/cuda/rows.cpp launches it
constexpr int kGrids[] = {1, 2, 3, 4};               // CTAs an SM
constexpr int kRowsEach[] = {1, 2, 4};               // or as many CTAs as give each warp so many rows

struct Size {
  int rows, columns;
};
constexpr Size kSizes[] = {{128, 768},   {1024, 768}, {4096, 384},  {4096, 768},
                           {4096, 1024}, {8192, 768}, {16384, 768}, {32768, 768}};

unsigned ceil_div(int a, int b) { return static_cast<unsigned>((a + b - 1) / b); }

class Norms {
 public:
  Norms(const Gpu& gpu, Size size) : gpu_(gpu), size_(size) {
    const std::size_t count = static_cast<std::size_t>(size.rows) * static_cast<std::size_t>(size.columns);
    const std::int64_t bytes = 4 * static_cast<std::int64_t>(count);  // of a pair, in 16 bits
    std::mt19937 random(7);
    std::normal_distribution<float> values(0.3f, 1.5f);
    first_.resize(count);
    for (std::uint16_t& value : first_) value = f16_of_float(values(random));
    for (std::int64_t pair = 0; pair < std::clamp(kRotatedBytes / bytes, std::int64_t{1}, kMostPairs); ++pair) {
      x_.push_back(to_device<std::uint16_t>(gpu, first_));
      out_.emplace_back(gpu, 2 * count);
    }
    std::vector<float> weights(static_cast<std::size_t>(2 * size.columns));
    for (float& weight : weights) weight = values(random);
    weights_ = to_device<float>(gpu, weights);
  }

  Json times() {
    const int cores = gpu_.caps.cores, vectors = static_cast<int>(ceil_div(size_.columns, RowNormGrid::kVectorColumns));
    const Kernel& sum = plain_kernel(gpu_, "sum_norm", sum_norm_entry(kDType, 1), kSumThreads);
    const Kernel& row =
        plain_kernel(gpu_, "row_norm", row_norm_entry(kDType, vectors, false), RowNormGrid::kWarps * 32);
    const unsigned most = ceil_div(size_.rows, RowNormGrid::kWarps);
    Json all{{"sum_norm", time(sum, ceil_div(size_.rows, kSumRows))}};
    const std::vector<std::uint16_t> want = result();
    const auto add = [&](const std::string& name, unsigned grid) {
      all[name] = time(row, std::min(grid, most));
      if (result() != want)
        fail(ErrorKind::internal, "bug in STOF: {} x {}, {}: differs from sum_norm", size_.rows, size_.columns, name);
    };
    for (const int each : kGrids) add(fmt::format("c{}", each), static_cast<unsigned>(cores * each));
    for (const int each : kRowsEach) add(fmt::format("r{}", each), ceil_div(size_.rows, RowNormGrid::kWarps * each));
    return {{"rows", size_.rows},
            {"columns", size_.columns},
            {"kept", fmt::format("c{}", RowNormGrid::kCtas[vectors])},
            {"times", std::move(all)}};
  }

 private:
  Json time(const Kernel& kernel, unsigned grid) {
    Json times;
    for (const Reuse& reuse : kReuses) {
      times[reuse.name] =
          launch_us(gpu_, {.count = kReplays}, reuse, x_.size(), [&](StreamHandle stream, const Turn& turn) {
            const DeviceMemory &x = x_[turn.buffers], &out = out_[turn.buffers];
            launch(kernel, grid, stream, turn.back ? out : x, turn.back ? x : out);
          });
      if (reuse.to_and_fro) copy_in(gpu_, x_[0].address(), std::as_bytes(std::span(first_)));
    }
    out_[0].fill(0xff);
    const Stream stream(gpu_);
    launch(kernel, grid, stream.handle(), x_[0], out_[0]);
    stream.synchronize();
    return times;
  }

  void launch(const Kernel& kernel, unsigned grid, StreamHandle stream, const DeviceMemory& x,
              const DeviceMemory& out) const {
    SumNormParams params{.sources = {{x.as<void>(), nullptr}},
                         .out = out.as<void>(),
                         .added = nullptr,
                         .scale = weights_.as<float>(),
                         .shift = weights_.as<float>() + size_.columns,
                         .epsilon = 1e-12f,
                         .count = 1,
                         .columns = size_.columns,
                         .rows = size_.rows};
    void* arguments[] = {&params};
    kernel.launch({.grid = {.x = grid}, .stream = stream, .overlap_previous = gpu_.caps.arch >= 90}, arguments);
  }

  std::vector<std::uint16_t> result() const {
    std::vector<std::uint16_t> rows(out_[0].bytes() / 2);
    copy_out(gpu_, std::as_writable_bytes(std::span(rows)), out_[0].address());
    return rows;
  }

  const Gpu& gpu_;
  Size size_;
  std::vector<std::uint16_t> first_;  // what every x is at first
  std::vector<DeviceMemory> x_, out_;
  DeviceMemory weights_;
};

Size size_of_words(std::string_view text) {
  Size size{};
  const char* const end = text.data() + text.size();
  const auto [cross, first] = std::from_chars(text.data(), end, size.rows);
  if (first == std::errc() && cross != end && *cross == 'x') {
    const auto [rest, second] = std::from_chars(cross + 1, end, size.columns);
    if (second == std::errc() && rest == end && size.rows >= 1 && size.columns >= 8 && size.columns % 8 == 0 &&
        size.columns <= SumNormParams::kMostInWarp && size.rows <= (1 << 30) / size.columns)
      return size;
  }
  fail(ErrorKind::invalid_argument, "'{}'; accepted: ROWSxCOLUMNS, columns in eights up to {}, at most 2^30 numbers",
       text, SumNormParams::kMostInWarp);
}

void run(std::span<char*> arguments) {
  if (arguments.empty()) fail(ErrorKind::invalid_argument, "accepted: COMMIT [ROWSxCOLUMNS...]");
  std::vector<Size> sizes;
  for (const char* words : arguments.subspan(1)) sizes.push_back(size_of_words(words));
  if (sizes.empty()) sizes.assign(std::begin(kSizes), std::end(kSizes));
  const Device device = open_device("cuda");
  Json report{{"commit", arguments[0]}, {"device", device.caps.name}, {"dtype", name_of(kDType)}};
  report["protocol"] = fmt::format(
      "us of a layer norm without a residual, median of {} replays of a graph of {} launches; hot: the same buffers; "
      "to "
      "and fro: each reads what the one in front wrote; rotating: through {} MB, at most {} pairs of buffers. "
      "sum_norm: "
      "sum_norm_kernel. cN: row_norm_kernel with N CTAs an SM; rN: with as many as give each warp N rows; kept: the "
      "library's",
      kReplays, kLaunches, kRotatedBytes >> 20, kMostPairs);
  for (const Size& size : sizes) {
    report["rows"].push_back(Norms(gpu_of(device), size).times());
    fmt::print(stderr, "{}\n", report["rows"].back().dump());
  }
  fmt::print("{}\n", report.dump(1));
}

}  // namespace
}  // namespace stof::cuda

int main(int count, char** arguments) {
  try {
    stof::cuda::run(std::span(arguments, static_cast<std::size_t>(count)).subspan(1));
    return 0;
  } catch (const stof::Error& error) {
    fmt::print(stderr, "bench_norms: {}\n", error.what());
    return 1;
  }
}
