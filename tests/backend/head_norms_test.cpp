// SPDX-License-Identifier: Apache-2.0
// Heads of q and k that are divided by their root mean square and then turned, against the definition in double, on
// every device that is there.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "stof/session.h"
#include "tests/backend/random_tensor.h"
#include "tests/backend/row_operations_of.h"

namespace stof {
namespace {

constexpr std::int64_t kPositions = 11;
constexpr double kBound = 2e-5;  // as of norms of rows (rows_test.cpp)

class HeadNormsOf : public RowOperationsOf {};
INSTANTIATE_TEST_SUITE_P(Dtypes, HeadNormsOf, kPlaces, name_of_place);

// A row is heads of q, of k, and of v or whatever else follows.
struct Heads {
  std::int64_t rows, q, k, head_dim, rest;
  float epsilon = 1e-6f;
  std::int64_t turned() const { return (q + k) * head_dim; }
  std::int64_t columns() const { return turned() + rest; }
};

// Operands that begin an element behind an address that vectors take.
enum class Moved { none, x, out, q_scale, k_scale, angles };
constexpr Moved kMoved[] = {Moved::none, Moved::x, Moved::out, Moved::q_scale, Moved::k_scale, Moved::angles};

struct Problem {
  Problem(const Heads& of_row, DType dtype, std::mt19937& random)
      : heads(of_row),
        x(random_tensor(dtype, {of_row.rows * of_row.columns() + 1}, random)),
        out(random_tensor(dtype, {of_row.rows * of_row.columns() + 2}, random)),
        q_scale(random_tensor(DType::f32, {of_row.head_dim + 1}, random)),
        k_scale(random_tensor(DType::f32, {of_row.head_dim + 1}, random)),
        angles(random_tensor(DType::f32, {kPositions * of_row.head_dim + 1}, random)) {
    for (std::int64_t row = 0; row < heads.rows; ++row)  // neither ascending nor each once
      positions.push_back(static_cast<std::int32_t>((row * 7 + row / 3 * 5 + 4) % kPositions));
  }
  std::int64_t behind(Moved operand) const { return operand == moved ? 1 : 0; }
  double of(std::int64_t row, std::int64_t column) const {
    return element(x, behind(Moved::x) + row * heads.columns() + column);
  }
  std::vector<double> want(std::int64_t row) const;

  Heads heads;
  Moved moved = Moved::none;
  Tensor x, out, q_scale, k_scale, angles;
  std::vector<std::int32_t> positions;
};

std::vector<double> Problem::want(std::int64_t row) const {
  const std::int64_t dim = heads.head_dim, half = dim / 2;
  std::vector<double> row_of_out;
  for (std::int64_t c = 0; c < heads.columns(); ++c) row_of_out.push_back(of(row, c));
  const float* const angle =
      angles.as<float>() + behind(Moved::angles) + positions[static_cast<std::size_t>(row)] * dim;
  for (std::int64_t head = 0; head < heads.q + heads.k; ++head) {
    const float* const scale =
        head < heads.q ? q_scale.as<float>() + behind(Moved::q_scale) : k_scale.as<float>() + behind(Moved::k_scale);
    double squares = 0;
    for (std::int64_t i = 0; i < dim; ++i) squares += of(row, head * dim + i) * of(row, head * dim + i);
    const double size = std::sqrt(squares / static_cast<double>(dim) + double{heads.epsilon});
    for (std::int64_t i = 0; i < half; ++i) {
      const double a = of(row, head * dim + i) / size * scale[i];
      const double b = of(row, head * dim + half + i) / size * scale[half + i];
      row_of_out[static_cast<std::size_t>(head * dim + i)] = a * angle[i] - b * angle[half + i];
      row_of_out[static_cast<std::size_t>(head * dim + half + i)] = b * angle[i] + a * angle[half + i];
    }
  }
  return row_of_out;
}

// The result, with what lies in front of it and behind.
Tensor rotated(const Problem& problem, const Device& device, bool in_place) {
  const Heads& heads = problem.heads;
  const DType dtype = problem.x.dtype();
  Tensor out(dtype, problem.out.shape());
  std::memcpy(out.data(), problem.out.data(), out.bytes());
  const auto first = [&](Moved operand) { return static_cast<std::size_t>(problem.behind(operand)) * size_of(dtype); };
  if (in_place)
    std::memcpy(out.as<std::byte>() + first(Moved::out), problem.x.as<std::byte>() + first(Moved::x),
                static_cast<std::size_t>(heads.rows * heads.columns()) * size_of(dtype));
  Operands there(device);
  std::byte* const to = static_cast<std::byte*>(there.result(out)) + first(Moved::out);
  std::byte* const from = in_place ? to : static_cast<std::byte*>(there.in(problem.x)) + first(Moved::x);
  device.backend->rows.rotate({heads.rows, heads.columns(), dtype, there.queue()},
                              {.angles = there.floats(problem.angles) + problem.behind(Moved::angles),
                               .positions = there.in(problem.positions),
                               .heads = heads.q + heads.k,
                               .head_dim = heads.head_dim,
                               .norms = {.q_scale = there.floats(problem.q_scale) + problem.behind(Moved::q_scale),
                                         .k_scale = there.floats(problem.k_scale) + problem.behind(Moved::k_scale),
                                         .q_heads = heads.q,
                                         .epsilon = heads.epsilon}},
                              from, to);
  there.finish();
  return out;
}

void expect_definition(const Problem& problem, const Device& device, bool in_place) {
  const Tensor out = rotated(problem, device, in_place);
  const std::int64_t columns = problem.heads.columns(), first = problem.behind(Moved::out);
  for (std::int64_t row = 0; row < problem.heads.rows; ++row) {
    const std::vector<double> want = problem.want(row);
    for (std::int64_t c = 0; c < columns; ++c) {
      const double value = want[static_cast<std::size_t>(c)];
      ASSERT_NEAR(element(out, first + row * columns + c), value, kBound + 2 * rounding(out.dtype()) * std::abs(value))
          << problem.heads.q << " + " << problem.heads.k << " heads of " << problem.heads.head_dim << ", row " << row
          << ", column " << c;
    }
  }
  for (const std::int64_t beside : {first == 1 ? 0 : out.size() - 2, out.size() - 1})
    ASSERT_EQ(element(out, beside), element(problem.out, beside)) << "not of a row";
}

TEST_P(HeadNormsOf, DivideThenTurn) {
  std::mt19937 random(31);
  const std::vector<std::pair<std::int64_t, std::int64_t>> groups{{1, 1}, {4, 2}, {8, 1}, {14, 2}, {32, 8}};
  for (const std::int64_t head_dim : {2, 6, 8, 64, 80, 96, 128, 256})
    for (const auto& [q, k] : groups)
      for (const std::int64_t rows : {1, 5})
        for (const bool in_place : {false, true})
          expect_definition({{rows, q, k, head_dim, k * head_dim}, dtype(), random}, device_, in_place);
}

// More rows than CTAs share out evenly, and what follows heads is no number of heads, or nothing.
TEST_P(HeadNormsOf, ManyRowsOfAnyWidth) {
  std::mt19937 random(32);
  for (const std::int64_t head_dim : {6, 64, 128})
    for (const std::int64_t rest : {std::int64_t{0}, std::int64_t{1}, std::int64_t{40}, head_dim + 24})
      for (const bool in_place : {false, true})
        expect_definition({{70, 6, 2, head_dim, rest}, dtype(), random}, device_, in_place);
}

TEST_P(HeadNormsOf, AnyAddress) {
  std::mt19937 random(33);
  for (const std::int64_t head_dim : {64, 128})
    for (const Moved moved : kMoved)
      for (const bool in_place : {false, true}) {
        Problem problem({5, 4, 2, head_dim, 2 * head_dim}, dtype(), random);
        problem.moved = moved;
        expect_definition(problem, device_, in_place);
      }
}

TEST_P(HeadNormsOf, SmallHeadsAreAsEpsilonSays) {
  std::mt19937 random(34);
  for (const float epsilon : {1e-6f, 1e-5f, 1e-2f}) {
    Problem problem({5, 4, 2, 64, 128, epsilon}, dtype(), random);
    problem.x = random_tensor(dtype(), problem.x.shape(), random, 0.f, 3e-3f);
    for (std::int64_t c = 0; c < problem.heads.columns(); ++c)
      set_element(problem.x, 2 * problem.heads.columns() + c, 0.f);
    expect_definition(problem, device_, false);
  }
}

TEST_P(HeadNormsOf, NaNStaysInItsHead) {
  std::mt19937 random(35);
  for (const std::int64_t head_dim : {6, 64, 80, 128}) {
    const Problem problem({5, 4, 2, head_dim, 2 * head_dim}, dtype(), random);
    const std::int64_t columns = problem.heads.columns(), head = 2 * columns / head_dim + 3;
    set_element(problem.x, head * head_dim + 1, std::numeric_limits<float>::quiet_NaN());
    const Tensor out = rotated(problem, device_, false);
    for (std::int64_t i = 0; i < 5 * columns; ++i)
      ASSERT_EQ(std::isnan(element(out, i)), i / head_dim == head) << "heads of " << head_dim << ", element " << i;
  }
}

TEST_P(HeadNormsOf, NoRowsAreNothing) {
  std::mt19937 random(36);
  expect_definition({{0, 4, 2, 64, 128}, dtype(), random}, device_, false);
}

}  // namespace
}  // namespace stof
