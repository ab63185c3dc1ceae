// SPDX-License-Identifier: Apache-2.0
// Conversions against one value at a time, also where all threads take part.
#include "src/tensor/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#if defined(__SSE2__)
#include <pmmintrin.h>
#endif

#include "src/base/hash.h"
#include "src/tensor/half.h"
#include "tests/expect_error.h"

namespace stof {
namespace {

float value_at(const Tensor& tensor, std::int64_t i) {
  if (tensor.dtype() == DType::f16) return float_of_f16(tensor.as<std::uint16_t>()[i]);
  if (tensor.dtype() == DType::bf16) return float_of_bf16(tensor.as<std::uint16_t>()[i]);
  return tensor.as<float>()[i];
}

float rounded(float value, DType dtype) {
  if (dtype == DType::f16) return float_of_f16(f16_of_float(value));
  return dtype == DType::bf16 ? float_of_bf16(bf16_of_float(value)) : value;
}

Tensor random_values(Shape shape) {
  Tensor values(DType::f32, std::move(shape));
  for (std::int64_t i = 0; i < values.size(); ++i) {
    const std::uint64_t draw = splitmix64(static_cast<std::uint64_t>(i));
    values.as<float>()[i] = std::ldexp(static_cast<float>(draw >> 40) * 0x1p-24f - 0.5f, static_cast<int>(draw % 20));
  }
  return values;
}

TEST(Convert, EveryPairOfDtypes) {
  for (const Shape& shape : {Shape{3, 5}, Shape{1025, 1027}}) {  // by one thread, by all
    const Tensor values = random_values(shape);
    for (const DType from : {DType::f32, DType::f16, DType::bf16})
      for (const DType to : {DType::f32, DType::f16, DType::bf16}) {
        const Tensor source = converted(values.view(), from), got = converted(source.view(), to);
        std::int64_t wrong = 0;
        for (std::int64_t i = 0; i < got.size(); ++i)
          wrong += value_at(got, i) != rounded(rounded(values.as<float>()[i], from), to);
        EXPECT_EQ(wrong, 0) << name_of(from) << " to " << name_of(to) << " " << to_string(shape);
      }
  }
}

// A program may have its processor take floats below 2^-126 for 0; no half is that small.
#if defined(__SSE2__)
TEST(Convert, SmallHalvesArriveWhereSmallFloatsCountAsZero) {
  const Tensor halves(DType::f16, {0x400});
  for (std::uint16_t i = 0; i < 0x400; ++i) halves.as<std::uint16_t>()[i] = i;
  const unsigned before = _mm_getcsr();
  _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
  _MM_SET_DENORMALS_ZERO_MODE(_MM_DENORMALS_ZERO_ON);
  const Tensor floats = converted(halves.view(), DType::f32), back = converted(floats.view(), DType::f16);
  _mm_setcsr(before);
  for (std::uint16_t i = 0; i < 0x400; ++i) {
    ASSERT_EQ(floats.as<float>()[i], std::ldexp(static_cast<float>(i), -24));
    ASSERT_EQ(back.as<std::uint16_t>()[i], i);
  }
}
#endif

TEST(Convert, ATransposedMatrixComesInOrder) {
  const Tensor values = random_values({1030, 1100});
  TensorView transposed = values.view();
  transposed.shape = {1100, 1030}, transposed.strides = {1, 1100};
  for (const DType to : {DType::f32, DType::f16}) {
    const Tensor got = converted(transposed, to);
    std::int64_t wrong = 0;
    for (std::int64_t row = 0; row < 1100; ++row)
      for (std::int64_t column = 0; column < 1030; ++column)
        wrong += value_at(got, row * 1030 + column) != rounded(values.as<float>()[column * 1100 + row], to);
    EXPECT_EQ(wrong, 0) << name_of(to);
  }
}

TEST(Convert, SaysWhatItDoesNotTake) {
  const Tensor whole(DType::i32, {2}), floats(DType::f32, {2}), more(DType::f16, {3});
  EXPECT_ERROR(converted(whole.view(), DType::f16), ErrorKind::invalid_argument,
               "cannot convert i32 to f16; accepted: f32, f16, bf16");
  EXPECT_ERROR(convert(floats.view(), more.view()), ErrorKind::invalid_argument,
               "cannot convert [2] into [3]; accepted: the same shape, contiguous");
}

}  // namespace
}  // namespace stof
