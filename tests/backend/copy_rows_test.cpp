// SPDX-License-Identifier: Apache-2.0
// Copies of rows from and to places that are listed, on every device that is there: each byte of the memory that they
// write to is what copying row by row leaves there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "src/backend/contract.h"
#include "tests/backend/operands.h"

namespace stof {
namespace {

struct Copies {
  std::int64_t rows, bytes;
  std::int64_t x_gap = 0, out_gap = 0;      // between rows
  std::int64_t x_first = 0, out_first = 0;  // bytes in front of the first
};

Tensor random_bytes(std::int64_t count, std::mt19937& random) {
  Tensor bytes(DType::boolean, {std::max<std::int64_t>(count, 1)});
  std::generate_n(bytes.as<std::uint8_t>(), bytes.size(), [&] { return static_cast<std::uint8_t>(random()); });
  return bytes;
}

class CopyRowsOf : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    STOF_SKIP_WITHOUT_DEVICE(GetParam());
    device_ = open_device(GetParam());
  }

  // Rows may come again where they are read, not where they are written.
  std::vector<std::int32_t> places(std::int64_t count, std::int64_t among, bool again) {
    std::vector<std::int32_t> all(static_cast<std::size_t>(among));
    std::iota(all.begin(), all.end(), 0);
    std::shuffle(all.begin(), all.end(), random_);
    all.resize(static_cast<std::size_t>(count));
    if (again)
      for (std::int32_t& place : all) place = static_cast<std::int32_t>(random_() % static_cast<unsigned>(among));
    return all;
  }

  void expect_copied(const Copies& the, bool with_from, bool with_to) {
    const std::int64_t x_stride = the.bytes + the.x_gap, out_stride = the.bytes + the.out_gap;
    const std::int64_t x_rows = with_from ? the.rows + 7 : the.rows, out_rows = with_to ? 2 * the.rows + 3 : the.rows;
    const Tensor x = random_bytes(the.x_first + x_rows * x_stride - the.x_gap, random_),
                 out = random_bytes(the.out_first + out_rows * out_stride, random_);
    std::vector<std::int32_t> from, to;
    if (with_from) from = places(the.rows, x_rows, true);
    if (with_to) to = places(the.rows, out_rows, false);
    std::vector<std::uint8_t> want(out.as<std::uint8_t>(), out.as<std::uint8_t>() + out.size());
    for (std::int64_t i = 0; i < the.rows; ++i) {
      const auto row = static_cast<std::size_t>(i);
      std::memcpy(want.data() + the.out_first + (with_to ? to[row] : i) * out_stride,
                  x.as<std::uint8_t>() + the.x_first + (with_from ? from[row] : i) * x_stride,
                  static_cast<std::size_t>(the.bytes));
    }
    Operands there(device_);
    device_.backend->rows.copy({.rows = the.rows,
                                .bytes = the.bytes,
                                .x = static_cast<std::byte*>(there.in(x)) + the.x_first,
                                .out = static_cast<std::byte*>(there.result(out)) + the.out_first,
                                .x_stride = x_stride,
                                .out_stride = out_stride,
                                .from = with_from ? there.in(from) : std::span<const std::int32_t>{},
                                .to = with_to ? there.in(to) : std::span<const std::int32_t>{},
                                .queue = there.queue()});
    there.finish();
    EXPECT_EQ(std::memcmp(out.data(), want.data(), want.size()), 0)
        << the.rows << " rows of " << the.bytes << " bytes, gaps " << the.x_gap << " " << the.out_gap << ", first "
        << the.x_first << " " << the.out_first << (with_from ? ", from" : "") << (with_to ? ", to" : "");
  }
  void expect_copied(const Copies& the) {
    for (const bool with_from : {false, true})
      for (const bool with_to : {false, true}) expect_copied(the, with_from, with_to);
  }

  Device device_;
  std::mt19937 random_{31};
};
INSTANTIATE_TEST_SUITE_P(Devices, CopyRowsOf, testing::Values("cpu", "cuda"),
                         [](const auto& test) { return test.param; });

TEST_P(CopyRowsOf, RowsOfAnyWidth) {
  for (const std::int64_t bytes : {1, 2, 3, 4, 6, 16, 20, 30, 48, 512, 1536, 1540})
    for (const std::int64_t rows : {1, 2, 5, 70}) expect_copied({.rows = rows, .bytes = bytes});
}

// Few long ones, as are kept of a call, and many, as go into a cache of keys.
TEST_P(CopyRowsOf, FewLongOnesAndMany) {
  for (const std::int64_t bytes : {3072, 8192, 16384, 32768}) expect_copied({.rows = 3, .bytes = bytes});
  expect_copied({.rows = 256, .bytes = 4096});
  expect_copied({.rows = 3000, .bytes = 512, .x_gap = 1024});
  expect_copied({.rows = 1100, .bytes = 1024, .x_gap = 2048, .out_gap = 16});
}

TEST_P(CopyRowsOf, RowsApartAndAtAnyAddress) {
  for (const std::int64_t bytes : {6, 16, 52, 1536})
    for (const std::int64_t gap : {0, 1, 2, 4, 16, 100})
      for (const std::int64_t first : {0, 1, 2, 4, 8, 16}) {
        expect_copied({.rows = 9, .bytes = bytes, .x_gap = gap, .x_first = first}, true, false);
        expect_copied({.rows = 9, .bytes = bytes, .out_gap = gap, .out_first = first}, false, true);
      }
}

TEST_P(CopyRowsOf, NothingIsNothing) {
  expect_copied({.rows = 0, .bytes = 64});
  expect_copied({.rows = 5, .bytes = 0, .x_gap = 16, .out_gap = 16});
}

}  // namespace
}  // namespace stof
