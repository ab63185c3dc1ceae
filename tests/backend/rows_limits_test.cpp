// SPDX-License-Identifier: Apache-2.0
// Row operations where numbers and sizes end: infinities, NaN, squares that fp32 does not hold, more columns than a
// grid.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "stof/session.h"
#include "tests/backend/random_tensor.h"
#include "tests/backend/row_operations_of.h"
#include "tests/expect_error.h"

namespace stof {
namespace {

class RowLimitsOf : public RowOperationsOf {};
INSTANTIATE_TEST_SUITE_P(Dtypes, RowLimitsOf, kPlaces, name_of_place);

// To the limits that they have there: -inf is no exception, and NaN stays NaN.
TEST_P(RowLimitsOf, ActivationsOfWhatIsFar) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> far{-kInfinity, -1e30f, -1e5f, -300.f, 1e4f, 1e30f, kInfinity};
  constexpr std::int64_t kColumns = 40;
  const Tensor x(dtype(), {kRows, kColumns}), pairs(dtype(), {kRows, 2 * kColumns});
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const float value =
        i == 7 ? std::numeric_limits<float>::quiet_NaN() : far[static_cast<std::size_t>(i) % far.size()];
    set_element(x, i, value);
    set_element(pairs, i / kColumns * 2 * kColumns + i % kColumns, value);
    set_element(pairs, (i / kColumns * 2 + 1) * kColumns + i % kColumns, 1.f);
  }
  for (const Activation activation : kActivations) {
    if (activation == Activation::none) continue;
    const Tensor added(dtype(), {kRows, kColumns}), gated(dtype(), {kRows, kColumns});
    Operands there(device_);
    rows().add(shape(kColumns, there), there.in(x), {}, activation, there.result(added));
    rows().gate(shape(kColumns, there), there.in(pairs), activation, there.result(gated));
    there.finish();
    for (const Tensor* out : {&added, &gated})
      for (std::int64_t i = 0; i < x.size(); ++i) {
        const double value = element(x, i), got = element(*out, i);
        if (std::isnan(value)) {
          ASSERT_TRUE(std::isnan(got)) << name_of(activation);
        } else if (activation == Activation::tanh) {
          ASSERT_EQ(got, value < 0 ? -1 : 1) << value;
        } else if (value < 0) {
          ASSERT_NEAR(got, 0, 1e-9) << name_of(activation) << " of " << value;
        } else {
          ASSERT_EQ(got, value) << name_of(activation);
        }
      }
  }
}

TEST_P(RowLimitsOf, PoolKeepsNaN) {
  if (rows().pool == nullptr) GTEST_SKIP() << "the host pools (tests/runtime/pooling_test.cpp)";
  constexpr std::int64_t kLength = 37, kColumns = 70;
  for (std::int64_t at = 0; at < kLength; ++at) {
    const Tensor hidden(dtype(), {kLength, kColumns}), out(DType::f32, {1, kColumns});
    for (std::int64_t i = 0; i < hidden.size(); ++i) set_element(hidden, i, static_cast<float>(i % 31));
    set_element(hidden, at * kColumns + 3, std::numeric_limits<float>::quiet_NaN());
    const std::vector<std::int32_t> starts{0}, lengths{static_cast<std::int32_t>(kLength)};
    Operands there(device_);
    rows().pool({.rows = {kLength, kColumns, dtype(), there.queue()},
                 .hidden = there.in(hidden),
                 .starts = there.in(starts),
                 .lengths = there.in(lengths),
                 .pooling = Pooling::max,
                 .out = static_cast<float*>(there.result(out))});
    there.finish();
    for (std::int64_t c = 0; c < kColumns; ++c) ASSERT_EQ(std::isnan(element(out, c)), c == 3) << "row " << at;
  }
}

TEST_P(RowLimitsOf, PoolNormalizesVectorsOfAnySize) {
  if (rows().pool == nullptr) GTEST_SKIP() << "the host pools (tests/runtime/pooling_test.cpp)";
  if (dtype() == DType::f16) GTEST_SKIP() << "16 bits hold no such numbers";
  for (const float size : {1e-30f, 1e-23f, 1e20f, 1e37f}) {
    const Tensor hidden(dtype(), {1, 4}), out(DType::f32, {1, 4});
    for (std::int64_t i = 0; i < 4; ++i) set_element(hidden, i, size);
    const std::vector<std::int32_t> starts{0}, lengths{1};
    Operands there(device_);
    rows().pool({.rows = {1, 4, dtype(), there.queue()},
                 .hidden = there.in(hidden),
                 .starts = there.in(starts),
                 .lengths = there.in(lengths),
                 .pooling = Pooling::cls,
                 .normalize = true,
                 .out = static_cast<float*>(there.result(out))});
    there.finish();
    for (std::int64_t i = 0; i < 4; ++i) ASSERT_NEAR(element(out, i), 0.5, 1e-6) << size;
  }
}

TEST(RowOperations, RefuseMoreColumnsThanAGridHas) {
  const Device described = open_device("cuda:h200");
  RowShape shape{.rows = 1, .columns = 33553924, .dtype = DType::f32, .queue = {.device = &described}};
  EXPECT_ERROR(cuda_backend.rows.add(shape, nullptr, {}, Activation::gelu, nullptr), ErrorKind::unsupported,
               "rows of 33553924 columns on CUDA; accepted: at most 33553920");
  shape.columns = 4194241;
  const std::vector<std::int32_t> one{1};
  EXPECT_ERROR(cuda_backend.rows.pool({.rows = shape, .starts = one, .lengths = one, .pooling = Pooling::max}),
               ErrorKind::unsupported, "rows of 4194241 columns on CUDA; accepted: at most 4194240");
}

TEST(RowOperations, RefuseNormsOfWiderHeadsThanWarpsHold) {
  const Device described = open_device("cuda:h200");
  const std::vector<float> scale(258);
  RotaryHeads heads;
  heads.heads = 2, heads.head_dim = 258;
  heads.norms = {.q_scale = scale.data(), .k_scale = scale.data(), .q_heads = 1};
  const RowShape shape{.rows = 1, .columns = 516, .dtype = DType::f16, .queue = {.device = &described}};
  EXPECT_ERROR(cuda_backend.rows.rotate(shape, heads, nullptr, nullptr), ErrorKind::unsupported,
               "norms of heads of 258 on CUDA; accepted: at most 256");
}

}  // namespace
}  // namespace stof
