// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/matmul/weights.h"

#include <algorithm>

#include "kernels/shared/gemm.h"
#include "src/base/error.h"
#include "src/tensor/convert.h"
#include "src/tensor/half.h"

namespace stof::cuda {
namespace {

using Floats = std::vector<float>;

Floats floats_of(const TensorView& vector) {
  const Tensor values = converted(vector, DType::f32);
  return {values.as<float>(), values.as<float>() + values.size()};
}

Floats stacked_vectors(std::span<const TensorView> parts) {
  Floats all;
  for (const TensorView& part : parts) {
    const Floats values = floats_of(part);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// The rows of all parts, one part under the other.
Tensor stacked(std::span<const TensorView> parts, DType dtype) {
  const std::int64_t inner = parts.front().dim(1);
  std::int64_t columns = 0;
  for (const TensorView& part : parts) columns += part.dim(0);
  Tensor all(dtype, {columns, inner});
  auto* to = all.as<std::byte>();
  for (const TensorView& part : parts) {
    STOF_CHECK(part.dim(1) == inner);
    convert(part, view_of(to, dtype, part.shape));
    to += static_cast<std::size_t>(element_count(part.shape)) * size_of(dtype);
  }
  return all;
}

// Rows of `width` bytes: 8 of the first half, 8 of the second, and so on: a thread of a kernel has both of a pair.
void pair_rows(std::byte* rows, std::size_t bytes, std::size_t width) {
  constexpr std::size_t kRows = 8;
  const std::size_t half = bytes / 2, block = kRows * width;
  STOF_CHECK(half % block == 0);
  const std::vector<std::byte> before(rows, rows + bytes);
  for (std::size_t i = 0; i < half; i += block)
    for (const std::size_t begin : {i, half + i}) rows = std::copy_n(before.data() + begin, block, rows);
}

// Rows of `width` bytes, of heads: each to its paired_column.
void pair_heads(std::byte* rows, std::size_t width, const TurnedHeads& turned) {
  const std::vector<std::byte> before(rows, rows + static_cast<std::size_t>(turned.heads * turned.head_dim) * width);
  for (std::int64_t head = 0; head < turned.heads; ++head)
    for (std::int64_t i = 0; i < turned.head_dim; ++i) {
      const std::int64_t first = head * turned.head_dim;
      std::copy_n(before.data() + static_cast<std::size_t>(first + i) * width, width,
                  rows + static_cast<std::size_t>(first + paired_column(i, turned.head_dim)) * width);
    }
}

// As the kernels want the rows of the matrix, and the bias like them.
void put_in_order(const LinearSpec& spec, LaidOutWeights& to) {
  const std::size_t row_bytes = static_cast<std::size_t>(to.matrix.shape()[1]) * size_of(to.matrix.dtype());
  auto* const bias = reinterpret_cast<std::byte*>(to.bias.data());
  if (spec.gate) {
    pair_rows(to.matrix.as<std::byte>(), to.matrix.bytes(), row_bytes);
    pair_rows(bias, to.bias.size() * sizeof(float), sizeof(float));
  }
  if (spec.turned) {
    pair_heads(to.matrix.as<std::byte>(), row_bytes, *spec.turned);
    if (!to.bias.empty()) pair_heads(bias, sizeof(float), *spec.turned);
  }
}

DeviceMemory padded(const Gpu& gpu, Floats values) {
  values.resize((values.size() + kGemmPadding + 3) / 4 * 4, 0.f);
  return to_device<float>(gpu, values);
}

DeviceMemory stored(const Gpu& gpu, const Tensor& values) {
  return to_device<std::byte>(gpu, {values.as<std::byte>(), values.bytes()});
}

// As a product's dtype holds it.
float rounded(float value, DType dtype) {
  if (dtype == DType::f16) return float_of_f16(f16_of_float(value));
  if (dtype == DType::bf16) return float_of_bf16(bf16_of_float(value));
  return value;
}

// The matrix times the norm's scale, in place; of each of its rows the sum as it will be stored; the bias with what the
// norm's shift adds to it.
void fold(const DeferredNorm& norm, const Tensor& matrix, DType dtype, LaidOutWeights& to) {
  const Floats scale = floats_of(norm.scale), shift = floats_of(norm.shift);
  const std::size_t inner = scale.size(),
                    columns = static_cast<std::size_t>(matrix.size()) / std::max<std::size_t>(inner, 1);
  to.bias.resize(columns, 0.f);
  to.column_sum.resize(columns);
#pragma omp parallel for schedule(static)
  for (std::size_t column = 0; column < columns; ++column) {
    float* const row = matrix.as<float>() + column * inner;
    double shifted = to.bias[column], sum = 0;
    for (std::size_t i = 0; i < inner; ++i) {
      shifted += static_cast<double>(row[i]) * shift[i];
      row[i] = rounded(row[i] * scale[i], dtype);
      sum += row[i];
    }
    to.bias[column] = static_cast<float>(shifted);
    to.column_sum[column] = static_cast<float>(sum);
  }
}

}  // namespace

LaidOutWeights lay_out(const LinearSpec& spec) {
  LaidOutWeights result{.matrix = stacked(spec.weight, spec.x_norm ? DType::f32 : spec.dtype),
                        .bias = stacked_vectors(spec.bias),
                        .column_sum = {}};
  put_in_order(spec, result);
  if (spec.x_norm) {
    const std::int64_t inner = result.matrix.shape()[1];
    STOF_CHECK(spec.x_norm->scale.dim(0) == inner && spec.x_norm->shift.dim(0) == inner);
    fold(*spec.x_norm, result.matrix, spec.dtype, result);
    result.matrix = converted(result.matrix.view(), spec.dtype);
  }
  return result;
}

PackedWeights::PackedWeights(const Gpu& gpu, const LinearSpec& spec) : inner(spec.weight.front().dim(1)) {
  for (const TensorView& part : spec.weight) columns += part.dim(0);
  LaidOutWeights host = lay_out(spec);
  if (spec.x_norm) column_sum = padded(gpu, std::move(host.column_sum));
  if (spec.residual_norm) {
    STOF_CHECK(spec.residual_norm->scale.dim(0) == columns && spec.residual_norm->shift.dim(0) == columns);
    scale = padded(gpu, floats_of(spec.residual_norm->scale));
    shift = padded(gpu, floats_of(spec.residual_norm->shift));
  }
  matrix = stored(gpu, host.matrix);
  const auto biases = static_cast<std::int64_t>(host.bias.size());
  bias = stored(gpu, converted(view_of(host.bias.data(), DType::f32, {biases}), spec.dtype));
  exact_bias = padded(gpu, std::move(host.bias));
}

}  // namespace stof::cuda
