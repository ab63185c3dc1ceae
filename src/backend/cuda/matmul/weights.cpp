// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/matmul/weights.h"

#include <algorithm>
#include <vector>

#include "kernels/shared/gemm.h"
#include "src/base/error.h"
#include "src/tensor/convert.h"

namespace stof::cuda {
namespace {

using Floats = std::vector<float>;

Floats floats_of(const TensorView& vector) {
  const Tensor values = converted(vector, DType::f32);
  return {values.as<float>(), values.as<float>() + values.size()};
}

Floats stacked(std::span<const TensorView> parts) {
  Floats all;
  for (const TensorView& part : parts) {
    const Floats values = floats_of(part);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

DeviceMemory padded(const Gpu& gpu, Floats values) {
  values.resize((values.size() + kGemmPadding + 3) / 4 * 4, 0.f);
  return to_device<float>(gpu, values);
}

DeviceMemory rounded(const Gpu& gpu, Floats& values, DType dtype) {
  const auto count = static_cast<std::int64_t>(values.size());
  const Tensor stored = converted(view_of(values.data(), DType::f32, {count}), dtype);
  return to_device<std::byte>(gpu, {stored.as<std::byte>(), stored.bytes()});
}

// Rows of `width` values: 8 of the first half, 8 of the second, and so on: a thread of a kernel has both of a pair.
Floats paired(const Floats& values, std::size_t width) {
  constexpr std::size_t kRows = 8;
  const std::size_t half = values.size() / 2, block = kRows * width;
  STOF_CHECK(half % block == 0);
  Floats all;
  all.reserve(values.size());
  for (std::size_t i = 0; i < half; i += block)
    for (const std::size_t begin : {i, half + i})
      all.insert(all.end(), values.begin() + static_cast<std::ptrdiff_t>(begin),
                 values.begin() + static_cast<std::ptrdiff_t>(begin + block));
  return all;
}

// The matrix times the norm's scale as it will be stored, and of each of its rows the sum; the bias with what the
// norm's shift adds to it.
struct Folded {
  Floats matrix, column_sum, bias;
};
Folded folded(const DeferredNorm& norm, Floats matrix, Floats bias, DType dtype) {
  const Floats scale = floats_of(norm.scale), shift = floats_of(norm.shift);
  const std::size_t inner = scale.size(), columns = matrix.size() / std::max<std::size_t>(inner, 1);
  bias.resize(columns, 0.f);
  Floats column_sum(columns);
#pragma omp parallel for schedule(static)
  for (std::size_t column = 0; column < columns; ++column) {
    float* const row = matrix.data() + column * inner;
    double shifted = bias[column];
    for (std::size_t i = 0; i < inner; ++i) {
      shifted += static_cast<double>(row[i]) * shift[i];
      row[i] *= scale[i];
    }
    bias[column] = static_cast<float>(shifted);
  }
  const auto count = static_cast<std::int64_t>(matrix.size());
  const Tensor stored = converted(converted(view_of(matrix.data(), DType::f32, {count}), dtype).view(), DType::f32);
#pragma omp parallel for schedule(static)
  for (std::size_t column = 0; column < columns; ++column) {
    double sum = 0;
    for (std::size_t i = 0; i < inner; ++i) sum += stored.as<float>()[column * inner + i];
    column_sum[column] = static_cast<float>(sum);
  }
  return {.matrix = std::move(matrix), .column_sum = std::move(column_sum), .bias = std::move(bias)};
}

}  // namespace

PackedWeights::PackedWeights(const Gpu& gpu, const LinearSpec& spec) : inner(spec.weight.front().dim(1)) {
  for (const TensorView& part : spec.weight) columns += part.dim(0);
  Floats values = stacked(spec.weight), biases = stacked(spec.bias);
  if (spec.gate) {
    values = paired(values, static_cast<std::size_t>(inner));
    biases = paired(biases, 1);
  }
  if (spec.x_norm) {
    STOF_CHECK(spec.x_norm->scale.dim(0) == inner && spec.x_norm->shift.dim(0) == inner);
    Folded fold = folded(*spec.x_norm, std::move(values), std::move(biases), spec.dtype);
    values = std::move(fold.matrix), biases = std::move(fold.bias);
    column_sum = padded(gpu, std::move(fold.column_sum));
  }
  if (spec.residual_norm) {
    STOF_CHECK(spec.residual_norm->scale.dim(0) == columns && spec.residual_norm->shift.dim(0) == columns);
    scale = padded(gpu, floats_of(spec.residual_norm->scale));
    shift = padded(gpu, floats_of(spec.residual_norm->shift));
  }
  matrix = rounded(gpu, values, spec.dtype);
  bias = rounded(gpu, biases, spec.dtype);
  exact_bias = padded(gpu, std::move(biases));
}

}  // namespace stof::cuda
