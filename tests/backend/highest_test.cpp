// SPDX-License-Identifier: Apache-2.0
// Where the highest value of each row stands, on a device that looks for it: what going through the rows on the host
// finds, whatever room the device has and however rows lie.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/backend/row_operations_of.h"

namespace stof {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

// Rows of x from its element `first` on.
struct Rows {
  std::int64_t rows, columns, first = 0;
};

std::vector<std::int32_t> highest_here(const Tensor& x, const Rows& the) {
  std::vector<std::int32_t> found;
  for (std::int64_t row = 0; row < the.rows; ++row) {
    const auto at = [&](std::int64_t c) { return element(x, the.first + row * the.columns + c); };
    std::int64_t best = 0;
    bool has_nan = false;
    for (std::int64_t c = 0; c < the.columns; ++c) {
      has_nan = has_nan || std::isnan(at(c));
      if (at(c) > at(best)) best = c;
    }
    found.push_back(has_nan ? -1 : static_cast<std::int32_t>(best));
  }
  return found;
}

class HighestOf : public RowOperationsOf {
 protected:
  // `room`: bytes of a workspace.
  std::vector<std::int32_t> highest_there(const Tensor& x, const Rows& the, std::int64_t room) {
    const Tensor out(DType::i32, {the.rows}), workspace(DType::boolean, {std::max<std::int64_t>(room, 1)});
    std::fill_n(out.as<std::int32_t>(), the.rows, -7);
    Operands there(device_);
    RowShape shape{the.rows, the.columns, dtype(), there.queue()};
    if (room > 0) shape.queue.workspace = there.in(workspace), shape.queue.workspace_bytes = workspace.bytes();
    rows().highest(shape, static_cast<std::byte*>(there.in(x)) + the.first * std::int64_t(size_of(dtype())),
                   static_cast<std::int32_t*>(there.result(out)));
    there.finish();
    return {out.as<std::int32_t>(), out.as<std::int32_t>() + the.rows};
  }
  // Without room, with some for a few parts of each row, and with as much as is wanted.
  void expect_found(const Tensor& x, const Rows& the) {
    const std::vector<std::int32_t> want = highest_here(x, the);
    for (const std::int64_t room : {std::int64_t{0}, the.rows * 24, std::int64_t{1} << 20})
      EXPECT_EQ(highest_there(x, the, room), want)
          << the.rows << " rows of " << the.columns << ", first " << the.first << ", room " << room;
  }
  Tensor random_rows(const Rows& the, float spread = 9.f) {
    return random_tensor(dtype(), {the.first + the.rows * the.columns}, random_, 0.f, spread);
  }

  std::mt19937 random_{17};
};
// On the CPU the host looks for it.
INSTANTIATE_TEST_SUITE_P(Places, HighestOf,
                         testing::Values(Place{"cuda", DType::f32}, Place{"cuda", DType::f16},
                                         Place{"cuda", DType::bf16}),
                         name_of_place);

TEST_P(HighestOf, RowsOfAnyWidth) {
  for (const std::int64_t columns : {1, 2, 7, 8, 31, 64, 255, 1000, 1024, 1032, 2047, 8192, 9000, 50257, 151936})
    for (const std::int64_t count : {1, 2, 3, 8, 64, 100})
      if (columns < 10000 || count < 4) expect_found(random_rows({count, columns}), {count, columns});
  for (const Rows& the : {Rows{64, 32000}, Rows{100, 4097}}) expect_found(random_rows(the), the);
}

// Few different values, so that most rows have their highest many times; and 0 of either sign.
TEST_P(HighestOf, OfEqualValuesTheFirst) {
  for (const std::int64_t columns : {9, 64, 1000, 8192, 20011, 40000}) {
    const Rows the{5, columns};
    const Tensor x = random_rows(the);
    for (const int values : {1, 2, 5}) {
      for (std::int64_t i = 0; i < x.size(); ++i)
        set_element(x, i, static_cast<float>(random_() % static_cast<unsigned>(values)) - 4.f);
      expect_found(x, the);
    }
    for (std::int64_t i = 0; i < x.size(); ++i) set_element(x, i, random_() % 2 == 0 ? 0.f : -0.f);
    expect_found(x, the);
  }
}

TEST_P(HighestOf, EachPlaceOfARow) {
  const Rows the{40, 12345};
  const Tensor x = random_rows(the);
  for (int turn = 0; turn < 10; ++turn) {
    for (std::int64_t row = 0; row < the.rows; ++row)
      set_element(x, row * the.columns + static_cast<std::int64_t>(random_() % 12345), 10.f + static_cast<float>(turn));
    expect_found(x, the);
  }
  set_element(x, 0, 100.f);
  set_element(x, 2 * the.columns - 1, 100.f);
  expect_found(x, the);
}

TEST_P(HighestOf, NanIsSaidAndInfinitiesAreNumbers) {
  for (const std::int64_t columns : {8, 65, 4096, 30001, 32768}) {
    const Rows the{8, columns};
    const Tensor x = random_rows(the);
    const auto set = [&](std::int64_t row, std::int64_t column, float value) {
      set_element(x, row * columns + column, value);
    };
    for (std::int64_t c = 0; c < columns; ++c) set(0, c, -kInfinity), set(1, c, -kInfinity), set(2, c, kNan);
    set(1, columns - 1, -50.f);
    set(3, columns / 2, kInfinity), set(3, columns / 3, kNan);
    set(4, columns - 2, kInfinity), set(4, columns - 1, kInfinity);
    set(5, columns - 1, kNan);
    set(6, 0, -kNan);
    expect_found(x, the);
    EXPECT_EQ(highest_here(x, the)[0], 0);
    EXPECT_EQ(highest_here(x, the)[5], -1);
  }
}

TEST_P(HighestOf, RowsAtAnyAddress) {
  for (const std::int64_t columns : {24, 1024, 10000, 10001})
    for (const std::int64_t first : {1, 2, 3, 4, 5, 8, 12}) {
      const Rows the{6, columns, first};
      const Tensor x = random_rows(the);
      for (std::int64_t i = 0; i < first; ++i) set_element(x, i, kNan);
      expect_found(x, the);
    }
}

TEST_P(HighestOf, NothingIsNothing) { expect_found(random_rows({1, 16}), {0, 16}); }

}  // namespace
}  // namespace stof
