// SPDX-License-Identifier: Apache-2.0
// The row operations of a device in a dtype, as tests are given them: those of a GPU where there is one.
#pragma once
#include <gtest/gtest.h>

#include "src/backend/contract.h"
#include "tests/backend/operands.h"
#include "tests/backend/random_tensor.h"

namespace stof {

constexpr std::int64_t kRows = 5;

struct Place {
  std::string device;
  DType dtype;
};

class RowOperationsOf : public testing::TestWithParam<Place> {
 protected:
  void SetUp() override {
    STOF_SKIP_WITHOUT_DEVICE(GetParam().device);
    device_ = open_device(GetParam().device);
  }
  DType dtype() const { return GetParam().dtype; }
  const RowOperations& rows() const { return device_.backend->rows; }
  RowShape shape(std::int64_t columns, const Operands& there) const { return {kRows, columns, dtype(), there.queue()}; }
  // Of tables: those of a GPU are converted beforehand.
  std::vector<DType> table_dtypes() const {
    if (device_.backend->memory == nullptr) return {DType::f32, DType::f16, DType::bf16};
    return {dtype(), dtype(), dtype()};
  }
  Device device_;
};
inline const auto kPlaces =
    testing::Values(Place{"cpu", DType::f32}, Place{"cpu", DType::f16}, Place{"cpu", DType::bf16},
                    Place{"cuda", DType::f32}, Place{"cuda", DType::f16}, Place{"cuda", DType::bf16});
inline std::string name_of_place(const testing::TestParamInfo<Place>& the) {
  return the.param.device + "_" + std::string(name_of(the.param.dtype));
}

// Of one row of many: `want` but for `bound` and the roundings of the dtype.
inline void expect_row(const Tensor& out, std::int64_t row, const std::vector<double>& want, double bound) {
  const auto columns = std::ssize(want);
  for (std::int64_t c = 0; c < columns; ++c) {
    const double value = want[static_cast<std::size_t>(c)];
    ASSERT_NEAR(element(out, row * columns + c), value, bound + 2 * rounding(out.dtype()) * std::abs(value))
        << "columns " << columns << ", row " << row << ", column " << c;
  }
}

}  // namespace stof
