// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/matmul/weights.h"

#include <algorithm>

#include "kernels/shared/gemm.h"
#include "src/backend/cuda/driver/api.h"
#include "src/backend/cuda/rows.h"
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

// Rows of `width` bytes: kPairedColumns of the first half, as many of the second, and so on: a thread of a kernel has
// both of a pair.
void pair_rows(std::byte* rows, std::size_t bytes, std::size_t width) {
  const std::size_t half = bytes / 2, block = static_cast<std::size_t>(kPairedColumns) * width;
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

// Rows of `width` bytes as the kernels want them, of the matrix or of the bias.
void put_in_order(const LinearSpec& spec, std::span<std::byte> rows, std::size_t width) {
  if (rows.empty()) return;
  if (spec.gate || spec.paired) pair_rows(rows.data(), rows.size(), width);
  if (spec.turned) pair_heads(rows.data(), width, *spec.turned);
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

// The values times the norm's scale, in place; of each of their rows the sum as it will be stored, and the product with
// the norm's shift.
void fold(const DeferredNorm& norm, DType dtype, LaidOutMatrix& to) {
  const Floats scale = floats_of(norm.scale), shift = floats_of(norm.shift);
  const std::size_t inner = scale.size(),
                    columns = static_cast<std::size_t>(to.values.size()) / std::max<std::size_t>(inner, 1);
  to.column_sum.resize(columns);
  to.shifted.resize(columns);
#pragma omp parallel for schedule(static)
  for (std::size_t column = 0; column < columns; ++column) {
    float* const row = to.values.as<float>() + column * inner;
    double shifted = 0, sum = 0;
    for (std::size_t i = 0; i < inner; ++i) {
      shifted += static_cast<double>(row[i]) * shift[i];
      row[i] = rounded(row[i] * scale[i], dtype);
      sum += row[i];
    }
    to.shifted[column] = shifted;
    to.column_sum[column] = static_cast<float>(sum);
  }
}

}  // namespace

LaidOutMatrix lay_out_matrix(const LinearSpec& spec) {
  LaidOutMatrix result{
      .values = stacked(spec.weight, spec.x_norm ? DType::f32 : spec.dtype), .column_sum = {}, .shifted = {}};
  const Tensor& values = result.values;
  const std::int64_t inner = values.shape()[1];
  put_in_order(spec, {values.as<std::byte>(), values.bytes()},
               static_cast<std::size_t>(inner) * size_of(values.dtype()));
  if (spec.x_norm) {
    STOF_CHECK(spec.x_norm->scale.dim(0) == inner && spec.x_norm->shift.dim(0) == inner);
    fold(*spec.x_norm, spec.dtype, result);
    result.values = converted(values.view(), spec.dtype);
  }
  return result;
}

std::vector<float> lay_out_bias(const LinearSpec& spec, const std::vector<double>& shifted) {
  Floats bias = stacked_vectors(spec.bias);
  put_in_order(spec, std::as_writable_bytes(std::span(bias)), sizeof(float));
  if (!shifted.empty()) bias.resize(shifted.size(), 0.f);
  for (std::size_t column = 0; column < shifted.size(); ++column)
    bias[column] = static_cast<float>(bias[column] + shifted[column]);
  return bias;
}

bool has_stored_rows(const LinearSpec& spec) { return !spec.x_norm && !spec.turned; }

void for_each_part(const LinearSpec& spec, const std::function<void(std::span<const std::byte>)>& take) {
  for (const TensorView& part : spec.weight) {
    STOF_CHECK(part.dim(1) == spec.weight.front().dim(1));
    if (part.dtype == spec.dtype && part.contiguous()) take(stored_bytes(part));
    else take(stored_bytes(converted(part, spec.dtype).view()));
  }
}

namespace {

DeviceMemory brought_as_stored(const Gpu& gpu, const LinearSpec& spec) {
  std::size_t rows = 0, bytes = 0;
  for (const TensorView& part : spec.weight) rows += static_cast<std::size_t>(part.dim(0));
  DeviceMemory values(gpu, rows * static_cast<std::size_t>(spec.weight.front().dim(1)) * size_of(spec.dtype));
  for_each_part(spec, [&](std::span<const std::byte> part) {
    copy_in(gpu, values.address() + bytes, part);
    bytes += part.size();
  });
  return values;
}

// As pair_rows does: the host would read and write gigabytes once more.
DeviceMemory paired_there(const Gpu& gpu, const LinearSpec& spec, const DeviceMemory& rows) {
  const auto width = static_cast<std::int64_t>(size_of(spec.dtype)) * spec.weight.front().dim(1);
  const std::int64_t half = static_cast<std::int64_t>(rows.bytes()) / 2, block = kPairedColumns * width;
  STOF_CHECK(half % block == 0);
  DeviceMemory paired(gpu, rows.bytes());
  const WorkQueue queue{.device = spec.device};  // of no stream of its own: in the order of the copies
  for (const std::int64_t which : {0, 1})
    row_operations.copy({.rows = half / block,
                         .bytes = block,
                         .x = rows.as<std::byte>() + which * half,
                         .out = paired.as<std::byte>() + which * block,
                         .x_stride = block,
                         .out_stride = 2 * block,
                         .queue = queue});
  const CurrentGpu current(gpu);
  driver().synchronize_stream(nullptr);  // no other stream waits for that one
  return paired;
}

}  // namespace

DeviceMatrix::DeviceMatrix(const Gpu& gpu, const LinearSpec& spec) {
  if (has_stored_rows(spec)) {
    values = brought_as_stored(gpu, spec);
    if (spec.gate || spec.paired) values = paired_there(gpu, spec, values);
    return;
  }
  LaidOutMatrix host = lay_out_matrix(spec);
  values = stored(gpu, host.values);
  if (spec.x_norm) column_sum = padded(gpu, std::move(host.column_sum));
  shifted = std::move(host.shifted);
}

PackedWeights::PackedWeights(const Gpu& gpu, const LinearSpec& spec) : inner(spec.weight.front().dim(1)) {
  for (const TensorView& part : spec.weight) columns += part.dim(0);
  matrix = std::static_pointer_cast<const DeviceMatrix>(spec.matrix);
  if (!matrix) matrix = std::make_shared<const DeviceMatrix>(gpu, spec);
  if (spec.residual_norm) {
    STOF_CHECK(spec.residual_norm->scale.dim(0) == columns && spec.residual_norm->shift.dim(0) == columns);
    scale = padded(gpu, floats_of(spec.residual_norm->scale));
    shift = padded(gpu, floats_of(spec.residual_norm->shift));
  }
  if (const auto& norm = spec.own_norm) {
    STOF_CHECK(norm->scale.dim(0) == inner && (!norm->shift || norm->shift->dim(0) == inner));
    own_scale = to_device<float>(gpu, floats_of(norm->scale));
    if (norm->shift) own_shift = to_device<float>(gpu, floats_of(*norm->shift));
  }
  Floats exact = lay_out_bias(spec, matrix->shifted);
  const auto biases = static_cast<std::int64_t>(exact.size());
  bias = stored(gpu, converted(view_of(exact.data(), DType::f32, {biases}), spec.dtype));
  if (biases > 0) exact_bias = padded(gpu, std::move(exact));
}

}  // namespace stof::cuda
