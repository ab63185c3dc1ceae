// SPDX-License-Identifier: Apache-2.0
// Properties of random expressions: rectangles agree with elements, combinations with their parts, text with the tree.
#include <array>
#include <optional>

#include "tests/mask/naive.h"
#include "tests/mask/random_mask.h"

namespace stof {
namespace {

const MaskExtent kExtents[] = {
    {.queries = 64, .keys = 64, .batch = 2, .heads = 3},   {.queries = 1, .keys = 130, .batch = 1, .heads = 2},
    {.queries = 37, .keys = 200, .batch = 2, .heads = 1},  {.queries = 90, .keys = 41, .batch = 1, .heads = 2},
    {.queries = 150, .keys = 150, .batch = 1, .heads = 1}, {.queries = 1, .keys = 1, .batch = 1, .heads = 1}};

TEST(Properties, RectanglesAgreeWithElements) {
  for (unsigned seed = 0; seed < 900; ++seed) {
    const MaskExtent& extent = kExtents[seed % std::size(kExtents)];
    const Mask mask = RandomMask(seed, extent, true).expression(static_cast<int>(seed % 4));
    expect_consistent(mask, extent, seed, 30);
    if (HasFatalFailure()) FAIL() << "seed " << seed;
  }
}

TEST(Properties, WideRowsAgreeWithElements) {
  // Rows of more words than one walk of the tree fills.
  const MaskExtent extent{.queries = 3, .keys = 70000, .batch = 1, .heads = 1};
  for (unsigned seed = 0; seed < 40; ++seed) {
    const BoundMask mask(RandomMask(seed, extent, true).expression(1), extent);
    expect_consistent(mask, 0, {0, 3}, {static_cast<std::int64_t>(seed), 70000});
    expect_consistent(mask, 0, {1, 2}, {-5, 70100});
    if (HasFatalFailure()) FAIL() << "seed " << seed;
  }
}

TEST(Properties, CombinationsAreThoseOfTheirParts) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    const MaskExtent& extent = kExtents[seed % std::size(kExtents)];
    RandomMask random(seed, extent, true);
    const Mask a = random.expression(1), b = random.expression(1);
    const BoundMask bound_a(a, extent), bound_b(b, extent);
    const BoundMask both(a & b, extent), either(a | b, extent), opposite(!a, extent);
    for (int n = 0; n < 200; ++n) {
      const std::int64_t item = random.below(extent.batch), head = random.below(extent.heads);
      const std::int64_t row = random.below(extent.queries), key = random.below(extent.keys);
      const auto ask = [&](const BoundMask& mask) { return mask.allows(mask.group_of(item, head), row, key); };
      ASSERT_EQ(ask(both), ask(bound_a) && ask(bound_b)) << (a & b).text();
      ASSERT_EQ(ask(either), ask(bound_a) || ask(bound_b)) << (a | b).text();
      ASSERT_EQ(ask(opposite), !ask(bound_a)) << a.text();
    }
  }
}

TEST(Properties, TextParsesBackToAnEqualMask) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    const Mask mask = RandomMask(seed, kExtents[0], false).expression(static_cast<int>(seed % 6));
    const Mask again = parse(mask.text());
    ASSERT_EQ(again, mask) << mask.text();
    ASSERT_EQ(again.text(), mask.text());
    ASSERT_EQ(again.fingerprint(), mask.fingerprint());
  }
}

TEST(Properties, RectanglesOfOneNameOnADiagonalAreAlike) {
  int found = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    const MaskExtent extent{.queries = 50, .keys = 60, .batch = 1, .heads = 2};
    RandomMask random(seed, extent, true);
    const Mask expression = random.expression(2);
    const BoundMask mask(expression, extent);
    for (int n = 0; n < 50; ++n) {
      const int group = static_cast<int>(random.below(mask.groups()));
      const std::int64_t row = random.below(30), key = random.below(30), moved = 1 + random.below(15);
      const Range rows = {row, row + 5}, keys = {key, key + 15}, later_rows = {row + moved, row + moved + 5},
                  later_keys = {key + moved, key + moved + 15};
      if (mask.classify(group, rows, keys) != BlockKind::partial) continue;
      if (mask.classify(group, later_rows, later_keys) != BlockKind::partial) continue;
      const std::optional<std::uint64_t> name = mask.name_along_diagonal(group, rows, keys);
      if (!name || mask.name_along_diagonal(group, later_rows, later_keys) != name) continue;
      ++found;
      std::array<std::uint64_t, 5> bits{}, later{};
      mask.tile_bits(group, rows, keys, bits);
      mask.tile_bits(group, later_rows, later_keys, later);
      ASSERT_EQ(bits, later) << expression.text() << " row " << row << " key " << key << " moved " << moved;
    }
  }
  EXPECT_GT(found, 2000);
}

}  // namespace
}  // namespace stof
