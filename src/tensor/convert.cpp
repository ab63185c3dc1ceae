// SPDX-License-Identifier: Apache-2.0
#include "src/tensor/convert.h"

#include "src/base/error.h"
#include "src/tensor/copy.h"
#include "src/tensor/half.h"

namespace stof {
namespace {

// Elements; to wake threads costs as much as converting 10 thousand.
[[maybe_unused]] constexpr std::int64_t kWorthThreads = 1 << 20;

bool is_float(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }

struct F32 {
  using Stored = float;
  static float load(float value) { return value; }
  static float store(float value) { return value; }
};
struct F16 {
  using Stored = std::uint16_t;
  static float load(std::uint16_t bits) { return float_of_f16(bits); }
  static std::uint16_t store(float value) { return f16_of_float(value); }
};
struct Bf16 {
  using Stored = std::uint16_t;
  static float load(std::uint16_t bits) { return float_of_bf16(bits); }
  static std::uint16_t store(float value) { return bf16_of_float(value); }
};

template <class From, class To>
void convert_values(const TensorView& from, const TensorView& to) {
  const auto* const in = from.as<typename From::Stored>();
  auto* const out = to.as<typename To::Stored>();
  const std::int64_t count = element_count(from.shape);
#pragma omp parallel for schedule(static) if (count >= kWorthThreads)
  for (std::int64_t i = 0; i < count; ++i) out[i] = To::store(From::load(in[i]));
}

template <class From>
void convert_from(const TensorView& from, const TensorView& to) {
  if (to.dtype == DType::f16) return convert_values<From, F16>(from, to);
  if (to.dtype == DType::bf16) return convert_values<From, Bf16>(from, to);
  convert_values<From, F32>(from, to);
}

}  // namespace

void convert(const TensorView& from, const TensorView& to) {
  if (from.dtype == to.dtype) return copy(from, to);
  if (!is_float(from.dtype) || !is_float(to.dtype))
    fail(ErrorKind::invalid_argument, "cannot convert {} to {}; accepted: f32, f16, bf16", name_of(from.dtype),
         name_of(to.dtype));
  if (from.shape != to.shape || !to.contiguous())
    fail(ErrorKind::invalid_argument, "cannot convert {} into {}; accepted: the same shape, contiguous",
         to_string(from.shape), to_string(to.shape));
  if (!from.contiguous()) {
    const Tensor in_order(from.dtype, from.shape);
    copy(from, in_order.view());
    return convert(in_order.view(), to);
  }
  if (from.dtype == DType::f16) return convert_from<F16>(from, to);
  if (from.dtype == DType::bf16) return convert_from<Bf16>(from, to);
  convert_from<F32>(from, to);
}

Tensor converted(const TensorView& from, DType to) {
  if (from.dtype != to && (!is_float(from.dtype) || !is_float(to)))
    fail(ErrorKind::invalid_argument, "cannot convert {} to {}; accepted: f32, f16, bf16", name_of(from.dtype),
         name_of(to));
  Tensor result(to, from.shape);
  convert(from, result.view());
  return result;
}

std::span<const std::byte> stored_bytes(const TensorView& tensor) {
  STOF_CHECK(tensor.contiguous());
  return {static_cast<const std::byte*>(tensor.data),
          static_cast<std::size_t>(element_count(tensor.shape)) * size_of(tensor.dtype)};
}

}  // namespace stof
