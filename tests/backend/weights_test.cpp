// SPDX-License-Identifier: Apache-2.0
// Weights as a GPU will have them, laid out on the host: against their definition, value by value.
#include "src/backend/cuda/matmul/weights.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "src/base/hash.h"
#include "src/tensor/convert.h"
#include "src/tensor/half.h"

namespace stof::cuda {
namespace {

constexpr std::int64_t kInner = 24, kColumns = 32;

Tensor drawn(Shape shape, std::uint64_t seed) {
  Tensor values(DType::f32, std::move(shape));
  for (std::int64_t i = 0; i < values.size(); ++i)
    values.as<float>()[i] =
        static_cast<float>(splitmix64(seed * 1000 + static_cast<std::uint64_t>(i)) >> 40) * 0x1p-24f - 0.5f;
  return values;
}

float stored_at(const Tensor& matrix, std::int64_t row, std::int64_t column) {
  const std::uint16_t bits = matrix.as<std::uint16_t>()[row * kInner + column];
  return matrix.dtype() == DType::f16 ? float_of_f16(bits) : float_of_bf16(bits);
}

struct Operands {
  // Two parts, the second of which lies transposed, as GPT-2's do.
  Tensor above = drawn({8, kInner}, 1), below = drawn({kInner, kColumns - 8}, 2);
  Tensor first_bias = drawn({8}, 3), second_bias = drawn({kColumns - 8}, 4);
  Tensor scale = drawn({kInner}, 5), shift = drawn({kInner}, 6);

  LinearSpec spec(DType dtype) const {
    TensorView transposed = below.view();
    transposed.shape = {kColumns - 8, kInner}, transposed.strides = {1, kColumns - 8};
    LinearSpec result{.weight = {above.view(), transposed}, .bias = {}, .dtype = dtype};
    result.bias = {first_bias.view(), second_bias.view()};
    return result;
  }
  float weight(std::int64_t row, std::int64_t column) const {
    return row < 8 ? above.as<float>()[row * kInner + column] : below.as<float>()[column * (kColumns - 8) + row - 8];
  }
  float bias(std::int64_t row) const {
    return row < 8 ? first_bias.as<float>()[row] : second_bias.as<float>()[row - 8];
  }
};

float rounded(float value, DType dtype) {
  return dtype == DType::f16 ? float_of_f16(f16_of_float(value)) : float_of_bf16(bf16_of_float(value));
}

struct Weights {
  Tensor matrix;
  std::vector<float> bias, column_sum;
};
Weights lay_out(const LinearSpec& spec) {
  LaidOutMatrix matrix = lay_out_matrix(spec);
  return {std::move(matrix.values), lay_out_bias(spec, matrix.shifted), std::move(matrix.column_sum)};
}

TEST(LaidOutWeights, PartsAreOneUnderTheOther) {
  const Operands operands;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Weights weights = lay_out(operands.spec(dtype));
    ASSERT_EQ(weights.matrix.shape(), (Shape{kColumns, kInner}));
    ASSERT_EQ(weights.matrix.dtype(), dtype);
    for (std::int64_t row = 0; row < kColumns; ++row) {
      EXPECT_EQ(weights.bias.at(static_cast<std::size_t>(row)), operands.bias(row));
      for (std::int64_t column = 0; column < kInner; ++column)
        EXPECT_EQ(stored_at(weights.matrix, row, column), rounded(operands.weight(row, column), dtype));
    }
    EXPECT_TRUE(weights.column_sum.empty());
  }
}

TEST(LaidOutWeights, ANormOfXIsFoldedIn) {
  const Operands operands;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    LinearSpec spec = operands.spec(dtype);
    spec.x_norm = DeferredNorm{operands.scale.view(), operands.shift.view()};
    const Weights weights = lay_out(spec);
    ASSERT_EQ(weights.matrix.dtype(), dtype);
    for (std::int64_t row = 0; row < kColumns; ++row) {
      double bias = operands.bias(row), sum = 0;
      for (std::int64_t column = 0; column < kInner; ++column) {
        const float want = rounded(operands.weight(row, column) * operands.scale.as<float>()[column], dtype);
        EXPECT_EQ(stored_at(weights.matrix, row, column), want);
        bias += double{operands.weight(row, column)} * operands.shift.as<float>()[column];
        sum += want;
      }
      EXPECT_FLOAT_EQ(weights.bias.at(static_cast<std::size_t>(row)), static_cast<float>(bias));
      EXPECT_FLOAT_EQ(weights.column_sum.at(static_cast<std::size_t>(row)), static_cast<float>(sum));
    }
  }
}

// Rows 0 to 7 of the gate, then 0 to 7 of what it lets through, then 8 to 15 of the gate: whoever multiplies by it, and
// whoever gates the product.
TEST(LaidOutWeights, AGateAndWhatItLetsThroughTakeTurns) {
  const Operands operands;
  struct Way {
    bool gate = false, few_rows = false, paired = false, normed = false;
  };
  for (const auto& [gate, few_rows, paired, normed] : {Way{.gate = true}, Way{.gate = true, .few_rows = true},
                                                       Way{.paired = true}, Way{.gate = true, .normed = true}}) {
    LinearSpec spec = operands.spec(DType::f16);
    spec.gate = gate, spec.few_rows = few_rows, spec.paired = paired;
    const Weights plain = lay_out(operands.spec(DType::f16));
    if (normed) spec.x_norm = DeferredNorm{operands.scale.view(), operands.shift.view()};
    const Weights weights = lay_out(spec);
    for (std::int64_t row = 0; row < kColumns; ++row) {
      const std::int64_t from = row / 16 * 8 + row % 8 + (row % 16 >= 8 ? kColumns / 2 : 0);
      for (std::int64_t column = 0; column < kInner; ++column) {
        const float scale = normed ? operands.scale.as<float>()[column] : 1.f;
        EXPECT_EQ(stored_at(weights.matrix, row, column), rounded(operands.weight(from, column) * scale, DType::f16));
      }
      if (normed) continue;
      EXPECT_EQ(weights.bias.at(static_cast<std::size_t>(row)), plain.bias.at(static_cast<std::size_t>(from)));
    }
  }
}

// Two heads of 16 columns: pairs i and i + 8 beside each other, of which the even ones fill 8 columns and then the odd.
// What follows them stays.
TEST(LaidOutWeights, TurnedHeadsHaveTheirPairsBesideEachOther) {
  constexpr std::int64_t kOrder[16] = {0, 8, 2, 10, 4, 12, 6, 14, 1, 9, 3, 11, 5, 13, 7, 15};
  const Tensor matrix = drawn({40, kInner}, 7), bias = drawn({40}, 8);
  const Operands operands;
  for (const bool normed : {false, true}) {
    LinearSpec spec{
        .weight = {matrix.view()}, .bias = {bias.view()}, .turned = TurnedHeads{2, 16}, .dtype = DType::f16};
    if (normed) spec.x_norm = DeferredNorm{operands.scale.view(), operands.shift.view()};
    const Weights weights = lay_out(spec);
    for (std::int64_t row = 0; row < 40; ++row) {
      const std::int64_t from = row < 32 ? row / 16 * 16 + kOrder[row % 16] : row;
      for (std::int64_t column = 0; column < kInner; ++column) {
        const float scale = normed ? operands.scale.as<float>()[column] : 1.f;
        EXPECT_EQ(stored_at(weights.matrix, row, column),
                  rounded(matrix.as<float>()[from * kInner + column] * scale, DType::f16));
      }
      if (normed) continue;
      EXPECT_EQ(weights.bias.at(static_cast<std::size_t>(row)), bias.as<float>()[from]);
    }
  }
}

// 16 GB that lie on disk as the GPU wants them are not copied on the host.
TEST(LaidOutWeights, WhatIsStoredAsItIsMultipliedComesFromTheCheckpoint) {
  const Operands operands;
  const Tensor above = converted(operands.above.view(), DType::bf16);
  LinearSpec spec = operands.spec(DType::bf16);
  spec.weight[0] = above.view();
  const Tensor want = lay_out(spec).matrix;
  for (const bool gate : {false, true}) {  // whose rows the device puts in order
    spec.gate = gate;
    ASSERT_TRUE(has_stored_rows(spec));
    std::vector<std::byte> all;
    std::vector<const std::byte*> from;
    for_each_part(spec, [&](std::span<const std::byte> part) {
      from.push_back(part.data());
      all.insert(all.end(), part.begin(), part.end());
    });
    ASSERT_EQ(from.size(), 2U);
    EXPECT_EQ(from[0], above.as<std::byte>());
    EXPECT_TRUE(std::ranges::equal(all, stored_bytes(want.view())));
  }
  spec.gate = false, spec.turned = TurnedHeads{2, 16};
  EXPECT_FALSE(has_stored_rows(spec));
  spec.turned = {}, spec.x_norm = DeferredNorm{operands.scale.view(), operands.shift.view()};
  EXPECT_FALSE(has_stored_rows(spec));
}

}  // namespace
}  // namespace stof::cuda
