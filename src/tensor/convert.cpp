// SPDX-License-Identifier: Apache-2.0
#include "src/tensor/convert.h"

#include "src/base/error.h"
#include "src/tensor/copy.h"
#include "src/tensor/half.h"

namespace stof {
namespace {

bool is_float(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }

float load(const void* data, DType dtype, std::int64_t i) {
  if (dtype == DType::f16) return float_of_f16(static_cast<const std::uint16_t*>(data)[i]);
  if (dtype == DType::bf16) return float_of_bf16(static_cast<const std::uint16_t*>(data)[i]);
  return static_cast<const float*>(data)[i];
}

void store(float value, void* data, DType dtype, std::int64_t i) {
  if (dtype == DType::f16) static_cast<std::uint16_t*>(data)[i] = f16_of_float(value);
  else if (dtype == DType::bf16) static_cast<std::uint16_t*>(data)[i] = bf16_of_float(value);
  else static_cast<float*>(data)[i] = value;
}

}  // namespace

Tensor converted(const TensorView& from, DType to) {
  Tensor same(from.dtype, from.shape);
  copy(from, same.view());
  if (from.dtype == to) return same;
  if (!is_float(from.dtype) || !is_float(to))
    fail(ErrorKind::invalid_argument, "cannot convert {} to {}; accepted: f32, f16, bf16", name_of(from.dtype),
         name_of(to));
  Tensor result(to, from.shape);
  for (std::int64_t i = 0; i < result.size(); ++i) store(load(same.data(), from.dtype, i), result.data(), to, i);
  return result;
}

}  // namespace stof
