// SPDX-License-Identifier: Apache-2.0
#include "bench/gemm_operands.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "src/backend/cuda/driver/device.h"
#include "src/base/error.h"
#include "src/tensor/convert.h"
#include "src/tensor/half.h"

namespace stof::cuda {
namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

std::vector<float> normal(std::int64_t count, float mean, float deviation, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> distribution(mean, deviation);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = distribution(random);
  return values;
}

Tensor tensor_of(Shape shape, float mean, float deviation, unsigned seed) {
  Tensor tensor(DType::f32, std::move(shape));
  const std::vector<float> values = normal(tensor.size(), mean, deviation, seed);
  std::copy(values.begin(), values.end(), tensor.as<float>());
  return tensor;
}

DeviceMemory floats_on(const Gpu& gpu, const Tensor& tensor) {
  return to_device<float>(gpu, {tensor.as<float>(), static_cast<std::size_t>(tensor.size())});
}

// Rows of activations: a long period of random values, which no row length divides.
std::vector<std::uint16_t> activations(std::int64_t count) {
  static const std::vector<std::uint16_t> period = [] {
    std::vector<std::uint16_t> stored;
    for (const float value : normal(1'000'003, 0.3f, 1.5f, 7)) stored.push_back(f16_of_float(value));
    return stored;
  }();
  std::vector<std::uint16_t> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); i += period.size())
    std::copy_n(period.begin(), std::min(period.size(), values.size() - i), values.begin() + static_cast<long>(i));
  return values;
}

// As LinearCall::x_moments has them.
std::vector<float> moments_of(const std::vector<std::uint16_t>& values, std::int64_t rows, std::int64_t columns) {
  const std::int64_t pieces = moment_pieces(columns);
  std::vector<float> moments(static_cast<std::size_t>(rows * pieces * 2));
#pragma omp parallel for
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      const std::int64_t begin = piece * kMomentColumns, end = std::min(begin + kMomentColumns, columns);
      double sum = 0, squares = 0;
      const auto at = [&](std::int64_t i) {
        return double{float_of_f16(values[static_cast<std::size_t>(row * columns + i)])};
      };
      for (std::int64_t i = begin; i < end; ++i) sum += at(i);
      const double mean = sum / static_cast<double>(end - begin);
      for (std::int64_t i = begin; i < end; ++i) squares += (at(i) - mean) * (at(i) - mean);
      moments[static_cast<std::size_t>((row * pieces + piece) * 2)] = static_cast<float>(mean);
      moments[static_cast<std::size_t>((row * pieces + piece) * 2 + 1)] = static_cast<float>(squares);
    }
  return moments;
}

}  // namespace

std::string_view name_of(Pack pack) {
  switch (pack) {
    case Pack::plain: return "plain";
    case Pack::epilogue: return "epilogue";
    case Pack::encoder: return "encoder";
    case Pack::deferred: return "deferred";
  }
  return "";
}

Pack pack_called(std::string_view name) {
  for (const Pack pack : kPacks)
    if (name_of(pack) == name) return pack;
  fail(ErrorKind::invalid_argument, "'{}' follows no product; accepted: plain, epilogue, encoder, deferred", name);
}

LinearShape linear_called(std::string_view name) {
  for (const LinearShape& shape : kEncoderLinears)
    if (shape.name == name) return shape;
  fail(ErrorKind::invalid_argument, "linear '{}'; accepted: qkv, attention_out, up, down", name);
}

GemmOperands::GemmOperands(const Device& device, const LinearShape& shape, std::int64_t rows, std::int64_t copies)
    : device_(device),
      shape_(shape),
      rows_(rows),
      weight_(tensor_of({shape.columns, shape.inner}, 0.f, 0.04f, 1)),
      bias_(tensor_of({shape.columns}, 0.f, 0.5f, 2)),
      x_scale_(tensor_of({shape.inner}, 1.f, 0.2f, 3)),
      x_shift_(tensor_of({shape.inner}, 0.f, 0.2f, 4)),
      scale_(tensor_of({shape.columns}, 1.f, 0.2f, 5)),
      shift_(tensor_of({shape.columns}, 0.f, 0.2f, 6)) {
  const Gpu& gpu = gpu_of(device);
  const std::vector<std::uint16_t> x = activations(rows * shape.inner), residual = activations(rows * shape.columns);
  for (std::int64_t copy = 0; copy < copies; ++copy) {
    x_.push_back(to_device<std::uint16_t>(gpu, x));
    if (shape.residual) residual_.push_back(to_device<std::uint16_t>(gpu, residual));
    out_.emplace_back(gpu, residual.size() * 2);
    moments_.emplace_back(gpu, static_cast<std::size_t>(moments_bytes(rows, shape.columns)));
  }
  x_moments_ = to_device<float>(gpu, moments_of(x, rows, shape.inner));
  residual_moments_ = to_device<float>(gpu, moments_of(residual, rows, shape.columns));
  normal_x_ = DeviceMemory(gpu, x.size() * 2);
  normal_residual_ = DeviceMemory(gpu, residual.size() * 2);
  workspace_ = DeviceMemory(gpu, kWorkspaceBytes);
  device_x_scale_ = floats_on(gpu, x_scale_), device_x_shift_ = floats_on(gpu, x_shift_);
  device_scale_ = floats_on(gpu, scale_), device_shift_ = floats_on(gpu, shift_);
}

LinearSpec described(const Device& device, const LinearShape& shape, Pack pack) {
  const auto view = [](Shape sizes) { return view_of(nullptr, DType::f32, std::move(sizes)); };
  LinearSpec spec{.weight = {view({shape.columns, shape.inner})}, .bias = {}, .dtype = DType::f16, .device = &device};
  if (pack == Pack::plain) return spec;
  spec.bias = {view({shape.columns})};
  spec.activation = shape.activation;
  spec.residual = shape.residual;
  if (pack != Pack::deferred) return spec;
  spec.moments = shape.residual;
  const std::int64_t normed = shape.residual ? shape.columns : shape.inner;
  (shape.residual ? spec.residual_norm : spec.x_norm) = DeferredNorm{view({normed}), view({normed})};
  return spec;
}

LinearSpec GemmOperands::spec(Pack pack) const {
  LinearSpec spec = described(device_, shape_, pack);
  spec.weight = {weight_.view()};
  if (!spec.bias.empty()) spec.bias = {bias_.view()};
  if (spec.x_norm) spec.x_norm = DeferredNorm{x_scale_.view(), x_shift_.view()};
  if (spec.residual_norm) spec.residual_norm = DeferredNorm{scale_.view(), shift_.view()};
  return spec;
}

std::vector<PackedLinear> GemmOperands::pack(Pack pack) const {
  std::vector<PackedLinear> packed;
  while (packed.size() < x_.size()) packed.push_back(device_.backend->matmul.pack(spec(pack)));
  return packed;
}

LinearCall GemmOperands::call(std::int64_t copy) const {
  const auto i = static_cast<std::size_t>(copy) % x_.size();
  return {.x = x_[i].as<void>(),
          .out = out_[i].as<void>(),
          .residual = shape_.residual ? residual_[i].as<void>() : nullptr,
          .rows = rows_,
          .queue = {.device = &device_, .workspace = workspace_.as<void>(), .workspace_bytes = kWorkspaceBytes},
          .x_moments = x_moments_.as<float>(),
          .residual_moments = residual_moments_.as<float>(),
          .moments = moments_[i].as<float>()};
}

RowShape GemmOperands::rows_of(std::int64_t columns, const LinearCall& call) const {
  return {.rows = rows_, .columns = columns, .dtype = DType::f16, .queue = call.queue};
}

void GemmOperands::norm_output(const LinearCall& call) const {
  device_.backend->rows.layer_norm(rows_of(shape_.columns, call), call.out, nullptr,
                                   {.scale = device_scale_.as<float>(), .shift = device_shift_.as<float>()}, call.out);
}

LinearCall GemmOperands::normalised(const LinearCall& call) const {
  LinearCall normal = call;
  if (shape_.residual) {
    device_.backend->rows.layer_norm(rows_of(shape_.columns, call), call.residual, nullptr,
                                     {.scale = device_scale_.as<float>(), .shift = device_shift_.as<float>()},
                                     normal_residual_.as<void>());
    normal.residual = normal_residual_.as<void>();
  } else {
    device_.backend->rows.layer_norm(rows_of(shape_.inner, call), call.x, nullptr,
                                     {.scale = device_x_scale_.as<float>(), .shift = device_x_shift_.as<float>()},
                                     normal_x_.as<void>());
    normal.x = normal_x_.as<void>();
  }
  return normal;
}

std::vector<std::uint16_t> GemmOperands::stored_output(std::int64_t copy) const {
  const DeviceMemory& out = out_[static_cast<std::size_t>(copy)];
  std::vector<std::uint16_t> stored(out.bytes() / 2);
  copy_out(gpu_of(device_), std::as_writable_bytes(std::span(stored)), out.address());
  return stored;
}

std::vector<float> GemmOperands::output(std::int64_t copy) const {
  const std::vector<std::uint16_t> stored = stored_output(copy);
  std::vector<float> values(stored.size());
#pragma omp parallel for
  for (std::size_t i = 0; i < stored.size(); ++i) values[i] = float_of_f16(stored[i]);
  return values;
}

void GemmOperands::poison() const {
  out_.front().fill(0xFF);
  moments_.front().fill(0xFF);
}

double GemmOperands::moments_error() const {
  const std::vector<float> want = moments_of(stored_output(0), rows_, shape_.columns);
  std::vector<float> got(want.size());
  copy_out(gpu_of(device_), std::as_writable_bytes(std::span(got)), moments_.front().address());
  double worst = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double error = std::abs(double{got[i]} - want[i]) / (1 + std::abs(want[i]));
    if (!std::isnan(worst) && !(error <= worst)) worst = error;
  }
  return worst;
}

std::int64_t GemmOperands::bytes() const {
  return 2 *
         (rows_ * shape_.inner + shape_.columns * shape_.inner + rows_ * shape_.columns * (shape_.residual ? 2 : 1));
}

}  // namespace stof::cuda
