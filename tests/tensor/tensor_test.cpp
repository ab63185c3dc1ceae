// SPDX-License-Identifier: Apache-2.0
#include "stof/tensor.h"

#include <gtest/gtest.h>

#include "src/base/memory.h"
#include "tests/expect_error.h"

namespace stof {
namespace {

TEST(Tensor, IsAlignedAndContiguous) {
  const Tensor tensor(DType::bf16, {3, 5, 7});
  EXPECT_EQ(tensor.bytes(), 3u * 5 * 7 * 2);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % 64, 0u);
  EXPECT_EQ(tensor.view().strides, (Shape{35, 7, 1}));
  EXPECT_TRUE(tensor.view().contiguous());
}

TEST(Tensor, EmptyDimensionNeedsNoMemory) { EXPECT_EQ(Tensor(DType::f32, {4, 0}).bytes(), 0u); }

TEST(Tensor, RefusesBadShapes) {
  EXPECT_ERROR(Tensor(DType::f32, {2, -1}), ErrorKind::invalid_argument, "shape [2, -1] has a negative dimension");
  EXPECT_ERROR(element_count({1LL << 62, 4}), ErrorKind::invalid_argument,
               "shape [4611686018427387904, 4] has more than 2^63 - 1 elements");
}

TEST(Tensor, RefusesMoreThanTheMachineHas) {
  const auto most = memory_limit();
  const auto bytes = static_cast<std::int64_t>(most) + 1;
  EXPECT_ERROR(Tensor(DType::boolean, {bytes}), ErrorKind::device,
               "a bool tensor of shape [" + std::to_string(bytes) + "] takes " + std::to_string(bytes) +
                   " bytes; accepted: at most " + std::to_string(most) + ", the memory of this machine");
}

TEST(DType, ParsesItsOwnNames) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::i32, DType::i64, DType::boolean})
    EXPECT_EQ(parse_dtype(name_of(dtype)), dtype);
  EXPECT_ERROR(parse_dtype("f8"), ErrorKind::invalid_argument,
               "unknown dtype 'f8'; accepted: f32, f16, bf16, i32, i64, bool");
}

}  // namespace
}  // namespace stof
