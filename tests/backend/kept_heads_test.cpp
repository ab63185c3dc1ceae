// SPDX-License-Identifier: Apache-2.0
// Heads that are turned, and what follows them, on their way into a cache: what a rotation and a copy of its rows
// give, with and without norms, on every device that is there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "tests/backend/random_tensor.h"
#include "tests/backend/row_operations_of.h"

namespace stof {
namespace {

constexpr std::int64_t kPositions = 13;

class KeptHeadsOf : public RowOperationsOf {};
INSTANTIATE_TEST_SUITE_P(Dtypes, KeptHeadsOf, kPlaces, name_of_place);

// A row is heads of q, of k, and what else is kept.
struct Heads {
  std::int64_t rows, q, k, head_dim, rest;
  bool norms = false, in_place = false;
  std::int64_t kept_moved = 0;  // elements that what is kept begins behind an address that vectors take
  std::int64_t slots() const { return rows + 5; }
  std::int64_t columns() const { return (q + k) * head_dim + rest; }
  std::int64_t kept_from() const { return q * head_dim; }
  std::int64_t kept_columns() const { return columns() - kept_from(); }
};

std::ostream& operator<<(std::ostream& out, const Heads& of) {
  return out << of.rows << " rows of " << of.q << " + " << of.k << " heads of " << of.head_dim << " and " << of.rest
             << (of.norms ? ", norms" : "") << (of.in_place ? ", in place" : "") << ", moved by " << of.kept_moved;
}

struct Problem {
  Problem(const Heads& of_row, DType dtype, std::mt19937& random)
      : heads(of_row),
        x(random_tensor(dtype, {of_row.rows, of_row.columns()}, random)),
        before(random_tensor(dtype, {of_row.rows, of_row.columns()}, random)),
        cache(random_tensor(dtype, {of_row.kept_moved + of_row.slots() * of_row.kept_columns() + 1}, random)),
        angles(random_tensor(DType::f32, {kPositions, of_row.head_dim}, random)),
        q_scale(random_tensor(DType::f32, {of_row.head_dim}, random)),
        k_scale(random_tensor(DType::f32, {of_row.head_dim}, random)),
        places(static_cast<std::size_t>(of_row.slots())) {
    for (std::int64_t row = 0; row < heads.rows; ++row)
      positions.push_back(std::uniform_int_distribution<std::int32_t>(0, kPositions - 1)(random));
    std::iota(places.begin(), places.end(), 0);
    std::ranges::shuffle(places, random);
    places.resize(static_cast<std::size_t>(of_row.rows));
  }
  Tensor first_out() const { return copy_of(heads.in_place ? x : before); }
  static Tensor copy_of(const Tensor& tensor) {
    Tensor copy(tensor.dtype(), tensor.shape());
    std::memcpy(copy.data(), tensor.data(), tensor.bytes());
    return copy;
  }

  Heads heads;
  Tensor x, before, cache, angles, q_scale, k_scale;
  std::vector<std::int32_t> positions, places;
};

// What the rotation leaves, kept heads going to `cache` where there is one.
Tensor rotated(const Problem& problem, const Device& device, const Tensor* cache) {
  const Heads& heads = problem.heads;
  Tensor out = problem.first_out();
  Operands there(device);
  void* const to = there.result(out);
  RotaryHeads rotary{.angles = there.floats(problem.angles),
                     .positions = there.in(problem.positions),
                     .heads = heads.q + heads.k,
                     .head_dim = heads.head_dim};
  if (heads.norms)
    rotary.norms = {
        .q_scale = there.floats(problem.q_scale), .k_scale = there.floats(problem.k_scale), .q_heads = heads.q};
  if (cache != nullptr)
    rotary.kept = {.rows = static_cast<std::byte*>(there.result(*cache)) +
                           static_cast<std::size_t>(heads.kept_moved) * size_of(out.dtype()),
                   .places = there.in(problem.places),
                   .first_head = heads.q};
  device.backend->rows.rotate({heads.rows, heads.columns(), out.dtype(), there.queue()}, rotary,
                              heads.in_place ? to : there.in(problem.x), to);
  there.finish();
  return out;
}

// The same bits, or where squares are summed in another order about the same values.
void expect_same(const Tensor& got, const Tensor& want, bool in_order) {
  if (in_order) {
    EXPECT_EQ(std::memcmp(got.data(), want.data(), got.bytes()), 0);
    return;
  }
  for (std::int64_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(element(got, i), element(want, i), 1e-6 + 4 * rounding(got.dtype()) * std::abs(element(want, i))) << i;
}

// All that is kept lies at its place, and nothing else is written.
void expect_kept(const Problem& problem, const Device& device) {
  SCOPED_TRACE(testing::Message() << problem.heads);
  const Heads& heads = problem.heads;
  const Tensor plain = rotated(problem, device, nullptr), untouched = problem.first_out();
  const Tensor cache = Problem::copy_of(problem.cache), want_cache = Problem::copy_of(problem.cache);
  const Tensor out = rotated(problem, device, &cache), want = Problem::copy_of(plain);
  const std::size_t element = size_of(out.dtype()), bytes = static_cast<std::size_t>(heads.kept_columns()) * element;
  for (std::int64_t row = 0; row < heads.rows; ++row) {
    const auto at = static_cast<std::size_t>(row * heads.columns() + heads.kept_from()) * element;
    const std::int64_t place = problem.places[static_cast<std::size_t>(row)];
    const auto to = static_cast<std::size_t>(heads.kept_moved + place * heads.kept_columns()) * element;
    std::memcpy(want_cache.as<std::byte>() + to, plain.as<std::byte>() + at, bytes);
    std::memcpy(want.as<std::byte>() + at, untouched.as<std::byte>() + at, bytes);
  }
  const bool in_order = !heads.norms || heads.kept_moved == 0;
  expect_same(out, want, in_order);
  expect_same(cache, want_cache, in_order);
}

TEST_P(KeptHeadsOf, GoToTheirPlaces) {
  std::mt19937 random(51);
  const std::vector<std::pair<std::int64_t, std::int64_t>> groups{{1, 1}, {4, 2}, {14, 2}, {32, 8}};
  for (const std::int64_t head_dim : {2, 6, 8, 16, 34, 64, 80, 128, 256})
    for (const auto& [q, k] : groups)
      for (const std::int64_t rows : {1, 6})
        for (const bool norms : {false, true})
          for (const bool in_place : {false, true})
            expect_kept({{rows, q, k, head_dim, k * head_dim, norms, in_place}, dtype(), random}, device_);
}

// What follows the heads is no number of heads, or nothing; no head is kept, or all are.
TEST_P(KeptHeadsOf, OfAnyWidthAndNumber) {
  std::mt19937 random(52);
  const auto some = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  for (int problem = 0; problem < 60; ++problem) {
    Heads heads{some(1, 40), some(0, 5), some(0, 5), 2 * some(1, 40), some(0, 90)};
    if (problem % 2 == 0) heads.head_dim = heads.head_dim / 16 * 16 + 16, heads.rest = heads.rest / 8 * 8;
    if (heads.columns() == 0) continue;
    heads.norms = problem % 3 == 0, heads.in_place = problem % 5 < 2;
    expect_kept({heads, dtype(), random}, device_);
  }
}

TEST_P(KeptHeadsOf, AtAnyAddress) {
  std::mt19937 random(53);
  for (const std::int64_t moved : {1, 2, 4, 8})
    for (const bool norms : {false, true})
      for (const bool in_place : {false, true})
        expect_kept({{7, 4, 2, 64, 128, norms, in_place, moved}, dtype(), random}, device_);
}

// A GPU's warps have more heads each then.
TEST_P(KeptHeadsOf, OfManyRows) {
  std::mt19937 random(55);
  for (const bool in_place : {false, true})
    for (const auto& [q, k] : {std::pair{12, 12}, std::pair{5, 1}})
      expect_kept({{2200, q, k, 64, k * 64, false, in_place}, dtype(), random}, device_);
}

TEST_P(KeptHeadsOf, OfNoRowsAreNothing) {
  std::mt19937 random(54);
  for (const bool norms : {false, true}) expect_kept({{0, 4, 2, 64, 128, norms}, dtype(), random}, device_);
}

}  // namespace
}  // namespace stof
