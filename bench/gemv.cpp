// SPDX-License-Identifier: Apache-2.0
// Products of few rows, as steps of generation have them: the kernel for them at every size of its CTAs, with norm,
// gate or residual inside, beside cuBLASLt's product with row kernels around it. Device time of one by replaying a
// graph of many whose weights take turns, so that each is read from memory; a result that differs from the other's has
// no time.
//   bench_gemv COMMIT [ROWS...] >bench/results/COMMIT-h200-gemv.json
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "bench/agreement.h"
#include "bench/replay.h"
#include "src/backend/contract.h"
#include "src/backend/cuda/driver/blas.h"
#include "src/backend/cuda/driver/device.h"
#include "src/backend/cuda/driver/device_memory.h"
#include "src/backend/cuda/driver/stream.h"
#include "src/backend/cuda/matmul/settings.h"
#include "src/base/error.h"
#include "src/base/median.h"
#include "src/tensor/convert.h"
#include "src/tensor/half.h"

namespace stof::cuda {
namespace {

using Json = nlohmann::ordered_json;

constexpr DType kDType = DType::bf16;
constexpr std::int64_t kColdBytes = std::int64_t{200} << 20;  // of weights: four times the L2
constexpr std::int64_t kRows[] = {1, 4, 8, 16};
constexpr int kReplays = 9;
constexpr float kEpsilon = 1e-6f;
constexpr double kBound = 1e-2;  // in bf16, of what is rounded once more on the way

struct Shape {
  const char* model;
  const char* name;
  std::int64_t columns, inner;  // of out; a gate's product has twice as many
  bool norm, gate, residual;
};
constexpr Shape kShapes[] = {
    {"Qwen3-0.6B", "qkv", 4096, 1024, true, false, false},
    {"Qwen3-0.6B", "o", 1024, 2048, false, false, true},
    {"Qwen3-0.6B", "gate_up", 3072, 1024, true, true, false},
    {"Qwen3-0.6B", "down", 1024, 3072, false, false, true},
    {"Qwen3-0.6B", "scores", 151936, 1024, true, false, false},
    {"Llama-3.1-8B", "qkv", 6144, 4096, true, false, false},
    {"Llama-3.1-8B", "o", 4096, 4096, false, false, true},
    {"Llama-3.1-8B", "gate_up", 14336, 4096, true, true, false},
    {"Llama-3.1-8B", "down", 4096, 14336, false, false, true},
};

DeviceMemory random_values(const Gpu& gpu, std::int64_t count, float deviation, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> values(0.f, deviation);
  std::vector<std::uint16_t> numbers(static_cast<std::size_t>(count));
  for (std::uint16_t& number : numbers) number = bf16_of_float(values(random));
  return to_device<std::uint16_t>(gpu, numbers);
}

// Between -most and most, in a time that counts neither: up to 150 million numbers.
void fill_evenly(Tensor& values, float most) {
  std::uint32_t state = 12345;
  for (std::int64_t i = 0; i < values.size(); ++i) {
    state ^= state << 13, state ^= state >> 17, state ^= state << 5;
    const auto centred = static_cast<float>(static_cast<std::int32_t>(state)) / 2147483648.f;
    values.as<std::uint16_t>()[i] = bf16_of_float(most * centred);
  }
}

class Product {
 public:
  Product(const Device& device, const Shape& shape, std::int64_t rows)
      : device_(device),
        gpu_(gpu_of(device)),
        shape_(shape),
        rows_(rows),
        x_(random_values(gpu_, row_capacity(rows) * shape.inner, 1.f, 1)),
        residual_(random_values(gpu_, row_capacity(rows) * shape.columns, 1.f, 2)),
        normed_(gpu_, bytes(shape.inner)),
        product_(gpu_, bytes(product_columns())),
        out_(gpu_, bytes(shape.columns)),
        workspace_(gpu_, device.backend->matmul.workspace_bytes),
        scale_(DType::f32, {shape.inner}) {
    for (std::int64_t i = 0; i < shape.inner; ++i) scale_.as<float>()[i] = 0.5f + static_cast<float>(i % 7) / 8;
    scale_there_ =
        to_device<float>(gpu_, std::span<const float>(scale_.as<float>(), static_cast<std::size_t>(shape.inner)));
    pack();
  }

  Json row() {
    Json row{{"model", shape_.model},
             {"product", shape_.name},
             {"rows", rows_},
             {"columns", shape_.columns},
             {"inner", shape_.inner},
             {"norm", shape_.norm},
             {"gate", shape_.gate},
             {"residual", shape_.residual},
             {"weight_bytes", 2 * product_columns() * shape_.inner}};
    const std::vector<float> want = result([&](StreamHandle stream) { apart(0, stream); });
    row["apart_us"] = time([&](std::size_t i, StreamHandle stream) { apart(i, stream); });
    row["blas_us"] = time([&](std::size_t i, StreamHandle stream) { blas(i, x_.as<void>(), stream); });
    for (const MatmulSetting& setting : gemv_settings()) {
      if (device_.backend->matmul.refuses(spec(), rows_, setting)) continue;
      const auto run = [&](std::size_t i, StreamHandle stream) { fused(i, setting, stream); };
      const std::string name = text_of(setting);
      const Agreement found =
          agreement_of(result([&](StreamHandle stream) { run(0, stream); }), want, shape_.columns, kBound);
      if (!found.wrong.empty()) row["wrong"][name] = found.wrong;
      else row["us"][name] = time(run), row["predicted_us"][name] = predicted_us(problem(), device_.caps, setting);
    }
    return row;
  }

 private:
  std::int64_t product_columns() const { return shape_.gate ? 2 * shape_.columns : shape_.columns; }
  std::size_t bytes(std::int64_t columns) const { return static_cast<std::size_t>(2 * row_capacity(rows_) * columns); }

  LinearSpec spec() const {
    LinearSpec spec = plain();
    spec.activation = shape_.gate ? Activation::silu : Activation::none;
    spec.gate = shape_.gate, spec.paired = false, spec.residual = shape_.residual;
    spec.few_rows = shape_.gate || shape_.norm;
    if (shape_.norm) spec.own_norm = OwnNorm{scale_.view(), {}, kEpsilon};
    return spec;
  }
  LinearSpec plain() const {
    return {.weight = {weight_.view()}, .bias = {}, .paired = shape_.gate, .dtype = kDType, .device = &device_};
  }
  MatmulProblem problem() const { return problem_of(spec(), rows_); }

  void pack() {
    weight_ = Tensor(kDType, {product_columns(), shape_.inner});
    fill_evenly(weight_, std::sqrt(3.f / static_cast<float>(shape_.inner)));
    const auto copies = std::max<std::int64_t>(2, kColdBytes / static_cast<std::int64_t>(weight_.bytes()) + 1);
    for (std::int64_t copy = 0; copy < copies; ++copy) {
      LinearSpec unfused = plain(), fused = spec();
      unfused.matrix = fused.matrix = device_.backend->matmul.pack_matrix(unfused);
      plain_.push_back(device_.backend->matmul.pack(unfused));
      fused_.push_back(device_.backend->matmul.pack(fused));
    }
  }

  WorkQueue queue(StreamHandle stream) const {
    return {.device = &device_,
            .stream = stream,
            .workspace = workspace_.as<void>(),
            .workspace_bytes = workspace_.bytes()};
  }

  void fused(std::size_t i, const MatmulSetting& setting, StreamHandle stream) const {
    device_.backend->matmul.run(fused_[i % fused_.size()], {.x = x_.as<void>(),
                                                            .out = out_.as<void>(),
                                                            .residual = residual_.as<void>(),
                                                            .rows = rows_,
                                                            .queue = queue(stream),
                                                            .setting = &setting});
  }
  void blas(std::size_t i, const void* x, StreamHandle stream) const {
    const MatmulSetting setting;
    const bool last = !shape_.gate && !shape_.residual;
    device_.backend->matmul.run(plain_[i % plain_.size()], {.x = x,
                                                            .out = last ? out_.as<void>() : product_.as<void>(),
                                                            .rows = rows_,
                                                            .queue = queue(stream),
                                                            .setting = &setting});
  }
  void apart(std::size_t i, StreamHandle stream) const {
    const RowOperations& rows = device_.backend->rows;
    if (shape_.norm)
      rows.layer_norm({rows_, shape_.inner, kDType, queue(stream)}, x_.as<void>(), nullptr,
                      {.scale = scale_there_.as<float>(), .epsilon = kEpsilon}, normed_.as<void>());
    blas(i, shape_.norm ? normed_.as<void>() : x_.as<void>(), stream);
    const RowShape out{rows_, shape_.columns, kDType, queue(stream)};
    if (shape_.gate)
      rows.gate({rows_ * shape_.columns / kPairedColumns, kPairedColumns, kDType, queue(stream)}, product_.as<void>(),
                Activation::silu, out_.as<void>());
    if (shape_.residual) rows.add(out, product_.as<void>(), {residual_.as<void>()}, Activation::none, out_.as<void>());
  }

  template <class Run>
  std::vector<float> result(const Run& run) const {
    out_.fill(0xff);
    const Stream stream(gpu_);
    run(stream.handle());
    stream.synchronize();
    Tensor there(kDType, {rows_, shape_.columns});
    copy_out(gpu_, {there.as<std::byte>(), there.bytes()}, out_.address());
    const Tensor values = converted(there.view(), DType::f32);
    return {values.as<float>(), values.as<float>() + values.size()};
  }

  template <class Run>
  double time(const Run& run) const {
    const std::size_t calls = std::max<std::size_t>(plain_.size(), 8);
    const std::vector<double> us = replay_us(gpu_, {.count = kReplays, .warm = 2}, [&](StreamHandle stream) {
      for (std::size_t i = 0; i < calls; ++i) run(i, stream);
    });
    return median_of(us) / static_cast<double>(calls);
  }

  const Device& device_;
  const Gpu& gpu_;
  Shape shape_;
  std::int64_t rows_;
  DeviceMemory x_, residual_, normed_, product_, out_, workspace_, scale_there_;
  Tensor scale_, weight_;
  std::vector<PackedLinear> plain_, fused_;
};

std::vector<std::int64_t> rows_of(int count, char** words) {
  std::vector<std::int64_t> all;
  for (int i = 0; i < count; ++i) {
    const std::string_view word = words[i];
    std::int64_t rows = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), rows);
    if (error != std::errc() || end != word.data() + word.size() || rows < 1 || rows > cuda_backend.matmul.few_rows)
      fail(ErrorKind::invalid_argument, "rows '{}'; accepted: 1 to {}", word, cuda_backend.matmul.few_rows);
    all.push_back(rows);
  }
  if (all.empty()) all.assign(std::begin(kRows), std::end(kRows));
  return all;
}

int measure(const char* commit, const std::vector<std::int64_t>& rows) {
  const Device device = open_device("cuda");
  Json report{{"commit", commit},         {"device", device.caps.name}, {"cublaslt", blas_version()},
              {"dtype", name_of(kDType)}, {"replays", kReplays},        {"weights_bytes", kColdBytes},
              {"rows", Json::array()}};
  bool wrong = false;
  for (const Shape& shape : kShapes)
    for (const std::int64_t count : rows) {
      Json row = Product(device, shape, count).row();
      wrong = wrong || row.contains("wrong");
      fmt::print(stderr, "{}\n", row.dump());
      report["rows"].push_back(std::move(row));
    }
  fmt::print("{}\n", report.dump(1));
  return wrong ? 1 : 0;
}

}  // namespace
}  // namespace stof::cuda

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: bench_gemv COMMIT [ROWS...]\n");
    return 2;
  }
  try {
    return stof::cuda::measure(argv[1], stof::cuda::rows_of(argc - 2, argv + 2));
  } catch (const stof::Error& error) {
    fmt::print(stderr, "bench_gemv: {}\n", error.what());
    return 1;
  }
}
