// SPDX-License-Identifier: Apache-2.0
#include "src/mask/where_parts.h"

#include <gtest/gtest.h>

#include <optional>

#include "src/mask/bind.h"
#include "src/mask/terms/where.h"
#include "tests/mask/random_where.h"

namespace stof {
namespace {

std::size_t part_count(const Symbol& expression) { return where_parts(expression.steps()).parts.size(); }

TEST(WhereParts, AreThoseOfAJoin) {
  const Symbol q(WhereOp::query), k(WhereOp::key);
  EXPECT_EQ(part_count(q < k), 1u);
  EXPECT_EQ(part_count(q < k || k % 3 == 0 || !q), 3u);
  EXPECT_EQ(part_count(q < k && (k % 3 == 0 || !q)), 2u);
  EXPECT_EQ(part_count((q | k) | (q & 3)), 3u);
  EXPECT_EQ(part_count(q & 3), 1u);              // 4 & 3 is 0
  EXPECT_EQ(part_count((q < k) & (q | k)), 1u);  // of the sum the lowest bit alone
  EXPECT_EQ(part_count((q < k) & (q < 3) * max(k < 5, q == k)), 2u);
  EXPECT_EQ(part_count(((q < k) + (q < 3)) & (k < 5)), 1u);
}

std::optional<std::int64_t> value_at(const std::vector<WhereStep>& steps, std::int64_t q, std::int64_t k) {
  std::vector<std::int64_t> stack;
  for (const WhereStep& step : steps) {
    WhereResult result{step.op == WhereOp::query ? q : step.op == WhereOp::key ? k : step.value};
    if (const int operands = operand_count(step.op); operands > 0) {
      const std::int64_t last = stack.back();
      stack.pop_back();
      if (operands == 1) result = compute(step.op, last);
      else result = compute(step.op, stack.back(), last), stack.pop_back();
    }
    if (result.failure) return std::nullopt;
    stack.push_back(result.value);
  }
  return stack.back();
}

// Of what is bound in parts, too.
TEST(WhereParts, AllowWhatTheWholeDoes) {
  const MaskExtent extent{.queries = 90, .keys = 70};  // positions from -20 on
  int joined = 0;
  for (unsigned seed = 0; seed < 4000; ++seed) {
    RandomWhere random(seed);
    Symbol expression = random.expression(2);
    for (std::int64_t count = random.below(4); count > 0; --count) {
      const Symbol other = random.expression(2);
      switch (random.below(4)) {
        case 0: expression = expression & other; break;
        case 1: expression = expression | other; break;
        case 2: expression = expression && other; break;
        default: expression = expression || other;
      }
    }
    joined += part_count(expression) > 1;
    const BoundMask mask(where(expression), extent);
    for (int i = 0; i < 30; ++i) {
      const std::int64_t row = random.below(extent.queries), key = random.below(extent.keys);
      const std::optional<std::int64_t> value = value_at(expression.steps(), row - 20, key);
      if (!value) continue;
      ASSERT_EQ(mask.allows(0, row, key), *value != 0) << where(expression).text() << " row " << row << " key " << key;
    }
  }
  EXPECT_GT(joined, 1000);
}

// Where the documents are others a comb of keys is left, which is the same everywhere.
TEST(WhereParts, RepeatBeyondTheOthers) {
  const BoundMask mask(where("q / 64 == k / 64 | k % 64 >= 60"), {.queries = 1024, .keys = 1024});
  const auto name = [&](std::int64_t row, std::int64_t key) {
    return mask.name_along_diagonal(0, {row, row + 64}, {key, key + 64});
  };
  ASSERT_TRUE(name(64, 512));
  EXPECT_EQ(name(64, 512)->keys, 64);
  EXPECT_EQ(name(64, 512), name(640, 256));
}

// In parts of parts, too: a window that grows with the row, and each 64th key.
TEST(WhereParts, RepeatInsideOfOthers) {
  const BoundMask mask(where("k <= q & (k % 64 == 0 | q - k < 128 + q / 64)"), {.queries = 1024, .keys = 1024});
  const auto name = [&](std::int64_t row, std::int64_t key) {
    return mask.name_along_diagonal(0, {row, row + 64}, {key, key + 64});
  };
  ASSERT_TRUE(name(640, 64));
  EXPECT_EQ(name(640, 64)->keys, 64);
  EXPECT_EQ(name(640, 64), name(960, 256));
}

}  // namespace
}  // namespace stof
