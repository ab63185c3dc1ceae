// SPDX-License-Identifier: Apache-2.0
// Heads that are turned by the positions of their rows, against their definition in double, on every device that is
// there: heads of each width that a GPU's warps share, and of others, in few rows and in many.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/backend/random_tensor.h"
#include "tests/backend/row_operations_of.h"

namespace stof {
namespace {

class TurnedHeadsOf : public RowOperationsOf {};
INSTANTIATE_TEST_SUITE_P(Dtypes, TurnedHeadsOf, kPlaces, name_of_place);

struct Heads {
  std::int64_t rows, heads, head_dim, rest;  // columns behind the heads
  std::int64_t turned() const { return heads * head_dim; }
  std::int64_t columns() const { return turned() + rest; }
};

struct Problem {
  static constexpr std::int64_t kPositions = 7;
  Problem(const Heads& of_row, DType dtype, std::mt19937& random)
      : heads(of_row),
        x(random_tensor(dtype, {of_row.rows, of_row.columns()}, random)),
        angles(random_tensor(DType::f32, {kPositions, of_row.head_dim}, random)) {
    for (std::int64_t row = 0; row < heads.rows; ++row)
      positions.push_back(std::uniform_int_distribution<std::int32_t>(0, kPositions - 1)(random));
  }
  std::vector<double> row(std::int64_t row) const {
    const std::int64_t half = heads.head_dim / 2;
    std::vector<double> want;
    for (std::int64_t c = 0; c < heads.columns(); ++c) {
      const double here = element(x, row * heads.columns() + c);
      want.push_back(here);
      if (c >= heads.turned()) continue;
      const bool first = c % heads.head_dim < half;
      const double other = element(x, row * heads.columns() + c + (first ? half : -half));
      const float* angle = angles.as<float>() + positions[static_cast<std::size_t>(row)] * heads.head_dim + c % half;
      want.back() = here * angle[0] + (first ? -1 : 1) * other * angle[half];
    }
    return want;
  }

  Heads heads;
  Tensor x, angles;
  std::vector<std::int32_t> positions;
};

Tensor turned(const Problem& problem, const Device& device, bool in_place) {
  const Heads& heads = problem.heads;
  Tensor out(problem.x.dtype(), {heads.rows, heads.columns()});
  if (in_place) std::memcpy(out.data(), problem.x.data(), out.bytes());
  Operands there(device);
  void* const to = there.result(out);
  device.backend->rows.rotate({heads.rows, heads.columns(), out.dtype(), there.queue()},
                              {.angles = there.floats(problem.angles),
                               .positions = there.in(problem.positions),
                               .heads = heads.heads,
                               .head_dim = heads.head_dim},
                              in_place ? to : there.in(problem.x), to);
  there.finish();
  return out;
}

void expect_turned(const Problem& problem, const Device& device) {
  SCOPED_TRACE(testing::Message() << problem.heads.rows << " rows of " << problem.heads.heads << " heads of "
                                  << problem.heads.head_dim << " and " << problem.heads.rest);
  const Tensor out = turned(problem, device, false), in_place = turned(problem, device, true);
  EXPECT_EQ(std::memcmp(out.data(), in_place.data(), out.bytes()), 0);
  const std::int64_t step = std::max<std::int64_t>(1, problem.heads.rows / 7);  // of many rows some
  for (std::int64_t row = 0; row < problem.heads.rows; row += step) expect_row(out, row, problem.row(row), 2e-6);
}

TEST_P(TurnedHeadsOf, OfEachWidth) {
  std::mt19937 random(8);
  for (const std::int64_t head_dim : {2, 6, 8, 16, 32, 34, 48, 64, 80, 96, 128, 160, 256, 272, 512})
    for (const std::int64_t rest : {std::int64_t{0}, 2 * head_dim, std::int64_t{8}})
      expect_turned({{.rows = kRows, .heads = 5, .head_dim = head_dim, .rest = rest}, dtype(), random}, device_);
}

// Each warp of a GPU has several groups of heads, the last perhaps fewer.
TEST_P(TurnedHeadsOf, OfManyRows) {
  std::mt19937 random(9);
  for (const Heads& heads : {Heads{4099, 24, 64, 768}, Heads{2113, 40, 128, 0}, Heads{2200, 3, 96, 96},
                             Heads{2112, 14, 64, 8}, Heads{700, 20, 256, 40}, Heads{9000, 1, 16, 16}})
    expect_turned({heads, dtype(), random}, device_);
}

}  // namespace
}  // namespace stof
